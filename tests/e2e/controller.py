"""Questions to the controller's replicas, through the API server's proxy."""

import json

from tests.e2e.client import Client, eventually, names
from tests.e2e.watcher import Watcher

SYSTEM = "lode-system"
LABEL = "app.kubernetes.io/name=lode-controller"


def leader(client: Client) -> str:
    """The name of the pod that holds the lease; `LookupError` while none does."""
    holder = str(client.get("lease", "lode-controller", SYSTEM)["spec"].get("holderIdentity") or "")
    pods = names(client.list("pods", SYSTEM, "-l", LABEL))
    if not (found := [pod for pod in pods if holder.startswith(f"{pod}_")]):
        raise LookupError(f"the lease is held by {holder!r}, no pod of {pods}")
    return found[0]


def usage(client: Client, pod: str) -> object:
    """What a replica has in memory."""
    path = f"/api/v1/namespaces/{SYSTEM}/pods/{pod}:8080/proxy/debug/usage"
    return json.loads(client.kubectl("get", "--raw", path))


def usage_is_what_the_claims_say(client: Client, watcher: Watcher) -> None:
    """The leader's memory, kept by events, equals the sum over all claims in the API."""

    def agree() -> bool:
        told, true = usage(client, leader(client)), watcher.held()
        assert told == true, f"the leader says {told}, the claims say {true}"
        return True

    eventually("the controller's memory equals what the claims say", agree)
