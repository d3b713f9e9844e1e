"""Gates that the controller cannot remove: the API server asks a webhook of others that does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from driver.kube.api import Api, Resource

WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
_BY_CONTROLLER = "request.userInfo.username == 'system:serviceaccount:lode-system:lode-controller'"
_NO_ANSWER = {
    "metadata": {"name": "no-answer"},
    "webhooks": [
        {
            "name": "no-answer.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
            "matchConditions": [{"name": "by-controller", "expression": _BY_CONTROLLER}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
        }
    ],
}


@contextmanager
def stuck_gates(api: Api) -> Iterator[None]:
    """Meanwhile pods get devices and keep the gate: the controller does not know whether it has removed it."""
    api.create(WEBHOOKS, _NO_ANSWER)
    try:
        yield
    finally:
        api.delete(WEBHOOKS, "no-answer")
