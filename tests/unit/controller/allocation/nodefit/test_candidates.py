from driver.model import Constraint, Taint, Toleration
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, names, pool, want

EVERYTHING = (Toleration(operator="Exists"),)


def test_requests_that_differ_only_in_tolerations_have_candidates_of_their_own() -> None:
    """The first fit fails on the constraint, so that the candidates of both requests are listed for a search."""
    devices = (device("x", {"v": 1}), device("a", {"v": 0}), device("t", {"v": 0}, taints=(Taint("t"),)))
    same = (Constraint((), f"{DRIVER}/v"),)
    built = fleet(*pool(*devices))
    assert names(built.allocate(NODE, {}, [claim(want(tolerations=EVERYTHING), want(), constraints=same)])) == [
        ["t", "a"]
    ]
    assert names(built.allocate(NODE, {}, [claim(want(), want(tolerations=EVERYTHING), constraints=same)])) == [
        ["a", "t"]
    ]
