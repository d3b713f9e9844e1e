"""Objects as people write them and as an API server prints them, and the commands run on them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main as lode
from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import snapshot_of
from cli.objects.checks import check
from cli.objects.documents import Document, Origin
from driver.files import SystemFiles
from driver.kinds import EVERY_OFFER, Offer
from driver.kube.api import Object
from driver.names import Names
from kubeletplugin.hardware import Card
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import DesiredPool, build_slices, plan_writes

EXAMPLES = Path(__file__).parent.parent.parent.parent / "manifests" / "examples" / "requests"
GATE = "lode.dev/allocation"
_NAMES, _NO_FABRIC = Names(), Fabric()


@cache
def _slices(node: str, profile: str, offer: tuple[Offer, ...], ib_cluster: str, names: Names) -> str:
    files = SystemFiles()
    cards = SimulatedHardware(load_profile(profile, files), node, files, "").cards()
    return json.dumps(slices_of(cards, node, offer or EVERY_OFFER, Fabric(ib_cluster=ib_cluster), names))


def slices_of(
    cards: Sequence[Card],
    node: str,
    offer: tuple[Offer, ...] = EVERY_OFFER,
    fabric: Fabric = _NO_FABRIC,
    names: Names = _NAMES,
) -> list[Object]:
    """The slices that a node with these cards publishes."""
    offered = build_inventory(cards, fabric, offer, 100, names)
    parts = build_slices(offered.devices, offered.counter_sets, node, names)
    return [action.object for action in plan_writes(DesiredPool(node, "uid", parts), ())]  # type: ignore[union-attr]


def slices(
    node: str, profile: str, offer: tuple[Offer, ...] = (), ib_cluster: str = "", names: Names = _NAMES
) -> list[Object]:
    """The slices that a node with the cards of a shipped profile publishes."""
    found: list[Object] = json.loads(_slices(node, profile, offer, ib_cluster, names))
    return found


def node(name: str, ready: bool = True, cpu: str = "8", **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
        },
    }


def _spec(device_class: str, expression: str, **exactly: Any) -> Object:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {
        "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class, **selectors, **exactly}}]}
    }


def claim(name: str, device_class: str = "gpu.lode.dev", expression: str = "", **exactly: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": _spec(device_class, expression, **exactly),
    }


def template(name: str, device_class: str = "gpu.lode.dev", expression: str = "", **exactly: Any) -> Object:
    spec = _spec(device_class, expression, **exactly)
    return {**claim(name), "kind": "ResourceClaimTemplate", "spec": {"spec": spec}}


def pod(name: str, *claims: str, of: str = "", cpu: str = "1", **spec: Any) -> Object:
    """``claims`` by name, and one of the template ``of``."""
    entries: list[Object] = [{"name": f"c{i}", "resourceClaimName": claim} for i, claim in enumerate(claims)]
    entries += [{"name": "t", "resourceClaimTemplateName": of}] if of else []
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": entries, **spec},
    }


def stored(obj: Object, created: str = "2027-01-15T08:00:00Z", **status: Any) -> Object:
    """An object as an API server prints it: with a uid, and fields that this version may not know."""
    name = obj["metadata"]["name"]
    more = {"uid": f"uid-{name}", "resourceVersion": "7", "creationTimestamp": created, "namespace": "default"}
    if obj["kind"] in ("Node", "ResourceSlice", "DeviceClass"):
        del more["namespace"]
    metadata = {**more, **obj["metadata"], "fieldOfTheFuture": {"a": 1}}
    return {**obj, "metadata": metadata, "status": {**(obj.get("status") or {}), **status}}


def allocated(obj: Object, place: str, *holders: str, **more: Any) -> Object:
    """A stored claim that holds ``node/device`` for pods."""
    on, device = place.split("/")
    fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
    allocation = {
        "devices": {
            "results": [{"request": "r", "driver": "lode.dev", "pool": f"{on}/lode.dev", "device": device, **more}]
        },
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": "2027-01-15T08:00:00Z",
    }
    reserved = [{"resource": "pods", "name": holder, "uid": f"uid-{holder}"} for holder in holders]
    return stored(obj, allocation=allocation, reservedFor=reserved)


def listed(*objects: Object) -> str:
    """As ``kubectl get -o json`` prints several objects."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects, "metadata": {"resourceVersion": ""}})


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def placed(self) -> dict[str, list[str]]:
        """Pod or claim to its devices as ``pool/device``, in the order of decision; none where it waits."""
        return {
            outcome["name"]: [f"{d['pool']}/{d['device']}" for claim in outcome["claims"] for d in claim["devices"]]
            for outcome in (*self.json["pods"], *self.json["claims"])
        }

    def reason(self, name: str) -> tuple[str, str]:
        """Why a pod or claim waits, in a word and in full."""
        found = next(one for one in (*self.json["pods"], *self.json["claims"]) if one["name"] == name)
        return found["reason"], found["message"]


Run = Callable[..., Answer]


def simulation(
    capsys: pytest.CaptureFixture[str], folder: Path, *objects: Object, options: Sequence[str] = ()
) -> Answer:
    """``lode simulate`` of objects in one file; JSON out unless ``options`` say otherwise."""
    path = folder / "objects.json"
    path.write_text(listed(*objects))
    status = lode(["simulate", "-f", str(path), "-o", "json", *options])
    shown = capsys.readouterr()
    return Answer(status, shown.out, shown.err)


def told(objects: list[Object]) -> Any:
    """What ``lode simulate`` finds for each pod and each claim."""
    documents = [Document(Origin("f", number), obj) for number, obj in enumerate(objects, 1)]
    checked = check(documents, "default")
    assert not checked.faults
    return [
        [outcome.to_json() for outcome in outcomes] for outcomes in simulate_all(snapshot_of(checked.objects, Names()))
    ]
