from driver.model import Capacity, RequestPolicy
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, pool, q, want


def test_pools_that_differ_only_in_the_values_of_a_policy_consume_their_own() -> None:
    parts = []
    for node, valid in (("n1", ("1Gi", "8Gi")), ("n2", ("2Gi", "8Gi"))):
        policy = RequestPolicy(q("8Gi"), tuple(map(q, valid)))
        shared = device("share", {"kind": "share"}, capacity={"memory": Capacity(q("8Gi"), policy)}, shared=True)
        parts += pool(shared, node=node)
    built = fleet(*parts)
    asked = [claim(want("share", capacity={"memory": "1Gi"}))]
    taken = []
    for node in ("n1", "n2"):
        answer = built.allocate(node, {}, asked)
        assert isinstance(answer, tuple)
        taken.append(str(answer[0].results[0].consumed["memory"]))
    assert taken == ["1Gi", "2Gi"]
