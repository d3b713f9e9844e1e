"""Queries to the controller's replicas, from inside their pods."""

import json

from tests.e2e.client import Client, eventually, names
from tests.e2e.watcher import Watcher

SYSTEM = "lode-system"
LABEL = "app.kubernetes.io/name=lode-controller"


def leader(client: Client) -> str:
    """The name of the pod that holds the lease; raises `LookupError` while none does."""
    holder = str(client.get("leases", "lode-controller", SYSTEM)["spec"].get("holderIdentity") or "")
    pods = names(client.list("pods", SYSTEM, labels=LABEL))
    if not (leaders := [pod for pod in pods if holder.startswith(f"{pod}_")]):
        raise LookupError(f"the holder of the lease is not one of the pods {pods}: {holder!r}")
    return leaders[0]


def usage(client: Client, pod: str) -> object:
    """The devices that a replica considers in use."""
    program = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8081/debug/usage').read().decode())"
    return json.loads(client.kubectl("-n", SYSTEM, "exec", pod, "--", "python3", "-c", program))


def check_usage_matches_claims(client: Client, watcher: Watcher) -> None:
    """The usage that the leader keeps up to date by events equals the sum over all claims in the API."""

    def equal() -> bool:
        reported, actual = usage(client, leader(client)), watcher.held()
        assert reported == actual, f"the leader reports {reported}, the claims hold {actual}"
        return True

    eventually("the controller's usage equals the sum over the claims", equal)
