"""What a container sees of its claims, and what it should see."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from driver.quantity import Quantity
from tests.e2e.client import Client, Object, results

METADATA = "/var/run/kubernetes.io/dra-device-attributes"
_SCRIPT = f"""
ls /dev/lode 2>/dev/null; echo @@; env | grep ^LODE_; echo @@
find {METADATA} -type f 2>/dev/null | while read file; do echo "$file"; tr -d '\\n' < "$file"; echo; done
"""


@dataclass(frozen=True, slots=True)
class ContainerContents:
    """The devices, environment variables and metadata files of our driver in a container.

    ``metadata`` maps the path of a file below `METADATA` to its devices, each with pool, name and attributes.
    """

    devices: frozenset[str]
    environment: Mapping[str, str]
    metadata: Mapping[str, tuple[Object, ...]]


def container_view(client: Client, namespace: str, pod: str, container: str) -> ContainerContents:
    """What a running container sees."""
    devices, environment, files = client.exec(namespace, pod, container, "sh", "-c", _SCRIPT).split("@@\n")
    lines = files.splitlines()
    return ContainerContents(
        frozenset(devices.split()),
        dict(line.split("=", 1) for line in environment.splitlines()),
        {path.removeprefix(f"{METADATA}/"): _devices(text) for path, text in zip(lines[::2], lines[1::2], strict=True)},
    )


def _devices(text: str) -> tuple[Object, ...]:
    """The devices in a metadata file. All versions in it must have the same content, the newest first."""
    documents = list(_documents(text))
    versions = [document.pop("apiVersion") for document in documents]
    assert versions == ["metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"]
    assert documents[0] == documents[1]
    return tuple(device for request in documents[0]["requests"] for device in request["devices"])


def _documents(text: str) -> Iterator[Object]:
    decoder = json.JSONDecoder()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:]


@dataclass(frozen=True, slots=True)
class Published:
    """The devices in the slices of our driver, by pool and name."""

    devices: Mapping[tuple[str, str], Object]

    @classmethod
    def read(cls, client: Client) -> "Published":
        """Read the slices."""
        slices = [it for it in client.list("resourceslices") if it["spec"]["driver"] == "lode.dev"]
        return cls({(it["spec"]["pool"]["name"], d["name"]): d for it in slices for d in it["spec"].get("devices", [])})

    def expected(self, claims: Mapping[str, Object]) -> ContainerContents:
        """Exactly what a container that lists these claims, by their names in the pod, must see."""
        devices: set[str] = set()
        environment: dict[str, str] = {}
        metadata: dict[str, tuple[Object, ...]] = {}
        for pod_claim, claim in claims.items():
            counts: Counter[str] = Counter()
            for result in results(claim):
                device = self.devices[result["pool"], result["device"]]
                devices.add(result["device"].removesuffix("-share"))
                by_request = f"{pod_claim}-{result['request']}-{counts[result['request']]}"
                counts[result["request"]] += 1
                environment |= dict(_environment(result, device, by_request.upper().replace("-", "_")))
                path = f"resourceclaimtemplates/{pod_claim}/{result['request']}/lode.dev-metadata.json"
                entry = {"driver": "lode.dev", "pool": result["pool"], "name": result["device"]}
                # What runs its container a program knows from there; only the slice says it.
                told = {name: it for name, it in device["attributes"].items() if name != "containerRuntime"}
                entry["attributes"] = told
                metadata[path] = (*metadata.get(path, ()), entry)
        return ContainerContents(frozenset(devices), environment, metadata)


def _environment(result: Object, device: Object, by_request: str) -> Iterable[tuple[str, str]]:
    name = result["device"].upper().replace("-", "_")
    if share := result.get("shareID"):
        name += f"_{share[:8]}"
    held = result.get("consumedCapacity") or {key: it["value"] for key, it in device["capacity"].items()}
    card, memory = device["attributes"]["uuid"]["string"], str(Quantity.parse(held["memory"]).value // 2**20)
    yield from {f"LODE_DEVICE_{name}": card, f"LODE_REQUEST_{by_request}_UUID": card}.items()
    yield from {f"LODE_MEMORY_MIB_{name}": memory, f"LODE_REQUEST_{by_request}_MEMORY_MIB": memory}.items()
    yield from {f"LODE_CORES_{name}": held["cores"], f"LODE_REQUEST_{by_request}_CORES": held["cores"]}.items()
