"""With a real API server and the rights that are installed, a node is kept from autoscalers while it is awaited."""

from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, Api
from tests.contract.conftest import eventually
from tests.contract.objects import claim
from tests.contract.running import installed, nodes_of, running_controller
from tests.contract.stuck_gates import stuck_gates

PROTECTED = {"karpenter.sh/do-not-disrupt": "true", "lode.dev/do-not-disrupt": "true"}


def annotations(api: Api) -> dict[str, str]:
    return dict(api.get(NODES, "n1")["metadata"].get("annotations") or {})


def test_a_node_is_protected_while_the_gate_cannot_be_removed_and_given_back_by_the_next_run() -> None:
    # The first run does not release the Lease, because it does not know what became of its last write.
    settings = {"autoscaling": {"enabled": True}, "leaseSeconds": 3, "writeSeconds": 1}
    with installed({"n1": {}}, settings) as (plane, api):
        plane.kubectl("apply", "-f", "manifests/autoscaling/autoscaling-rbac.yaml")
        before = annotations(api)
        with stuck_gates(api):
            with running_controller(plane):
                api.create(RESOURCE_CLAIMS, claim("card", "default"))
                spec = {
                    "containers": [{"name": "main", "image": "none"}],
                    "resourceClaims": [{"name": "card", "resourceClaimName": "card"}],
                }
                api.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
                eventually(lambda: annotations(api) == {**before, **PROTECTED}, 60)
                assert api.get(PODS, "p", "default")["spec"]["schedulingGates"]
            assert annotations(api) == {**before, **PROTECTED}
        with running_controller(plane):
            eventually(lambda: nodes_of(api, "p") == ["n1"], 90)
            eventually(lambda: annotations(api) == before, 30)
        log = (plane.folder / "controller.log").read_text()
        assert "annotations of node not written" not in log
