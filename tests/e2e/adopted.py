"""What pods that were written for another system got, in short words for each container."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from driver.quantity import Quantity
from tests.e2e.client import Client, Object, eventually, results
from tests.e2e.container import Published, container_view
from tests.e2e.pods import pod

ADOPTION = Path(__file__).parent / "adoption"
"""The flavor with adoption of every system."""

_RESOURCES = {
    "nvidia": "nvidia.com/gpu",
    "hami": "nvidia.com/gpu",
    "volcano": "volcano.sh/vgpu-number",
    "ascend": "huawei.com/Ascend310P",
    "plain": "amd.com/gpu",
}
Got = dict[str, list[list[str]]]
"""By container: what each pod's container of this name has, such as ``gpu`` or ``gpu-share 3000 30``."""


def adopt_from(client: Client, namespace: str, *sources: str) -> None:
    """From now on pods of these systems are adopted in the namespace.

    The API server learns of the label a moment later, so a pod that is not stored is tried until it is adopted.
    """
    client.kubectl("label", "namespace", namespace, *(f"lode.dev/adopt-{source}=on" for source in sources))
    for source in sources:
        probe = pod("probe")
        probe["spec"]["containers"][0]["resources"]["limits"] = {_RESOURCES[source]: "1"}
        command = ("create", f"--namespace={namespace}", "--dry-run=server", "-o", "json", "-f", "-")

        def is_adopted(text: str = json.dumps(probe), command: Sequence[str] = command) -> bool:
            return bool(json.loads(client.kubectl(*command, input=text))["spec"].get("resourceClaims"))

        eventually(f"pods of {source} are adopted", is_adopted)


def got(client: Client, namespace: str) -> Got:
    """What all containers of a namespace have, init containers that have ended excepted.

    Each container must see exactly the devices, variables and files of the requests that it uses.
    """
    published, claims, found = Published.read(client), client.claims(namespace), dict[str, list[list[str]]]()
    for running in client.list("pods", namespace):
        name, held = running["metadata"]["name"], claims[running["metadata"]["name"]]
        for container in running["spec"]["containers"]:
            used = _used(container, held)
            view = container_view(client, namespace, name, container["name"])
            assert view == published.expected(used), f"{namespace}/{name}, container {container['name']}"
            words = [_words(published, result) for claim in used.values() for result in results(claim)]
            found.setdefault(container["name"], []).append(sorted(words))
    return found


def devices_of(client: Client, namespace: str) -> set[str]:
    """The devices of all claims of a namespace, as ``pool/device``."""
    held = [result for claim in client.list("resourceclaims", namespace) for result in results(claim)]
    return {f"{result['pool']}/{result['device']}" for result in held}


def _used(container: Object, claims: Mapping[str, Object]) -> dict[str, Object]:
    """The claims that a container uses, each with the results of the requests that it names."""
    used = {}
    for entry in container["resources"].get("claims", []):
        claim = claims[entry["name"]]
        if request := entry.get("request"):
            chosen = [result for result in results(claim) if result["request"].partition("/")[0] == request]
            claim = {"status": {"allocation": {"devices": {"results": chosen}}}}
        used[entry["name"]] = claim
    return used


def _words(published: Published, result: Object) -> str:
    attributes = published.devices[result["pool"], result["device"]]["attributes"]
    words: Sequence[str] = [attributes["kind"]["string"], attributes["profile"]["string"]]
    if consumed := result.get("consumedCapacity"):
        words = [words[0], str(Quantity.parse(consumed["memory"]).value // 2**20), consumed["cores"]]
    return " ".join(filter(None, words))
