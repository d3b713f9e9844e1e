"""With a real API server and the rights that are installed, a node is kept from autoscalers while it is awaited."""

from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, Api, Resource
from tests.contract.conftest import eventually
from tests.contract.objects import claim
from tests.contract.running import installed, nodes_of, running_controller

WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
PROTECTED = {"karpenter.sh/do-not-disrupt": "true", "lode.dev/do-not-disrupt": "true"}
NO_ANSWER = {
    "metadata": {"name": "no-answer"},
    "webhooks": [
        {
            "name": "no-answer.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
            "matchConditions": [
                {"name": "ours", "expression": "request.userInfo.username.endsWith(':lode-controller')"}
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
        }
    ],
}
"""The API server gives no answer to whoever removes a gate as the controller: it asks a webhook that is not there."""


def annotations(api: Api) -> dict[str, str]:
    return dict(api.get(NODES, "n1")["metadata"].get("annotations") or {})


def test_a_node_is_protected_while_the_gate_cannot_be_removed_and_given_back_by_the_next_run() -> None:
    with installed({"n1": {}}, {"autoscaling": {"enabled": True}}) as (plane, api):
        plane.kubectl("apply", "-f", "manifests/autoscaling/autoscaling-rbac.yaml")
        before = annotations(api)
        api.create(WEBHOOKS, NO_ANSWER)
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
        api.delete(WEBHOOKS, "no-answer")
        with running_controller(plane):
            eventually(lambda: nodes_of(api, "p") == ["n1"], 90)
            eventually(lambda: annotations(api) == before, 30)
        log = (plane.folder / "controller.log").read_text()
        assert "annotations of node not written" not in log
