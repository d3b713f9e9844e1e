"""The objects: a fleet in which all cards but those of one model are in use, and pods that wait for them.

Pods that fit at once request the model that is free, which no waiting pod can use. Some cards are held by one pod each,
to be freed one after the other; on all other nodes one pod holds the eight cards.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.allocation.hardware import CARDS, Model
from benchmarks.controlplane import NAMESPACE, held_status, pod
from benchmarks.fleet import card_request, node_name
from driver.names import DEFAULT_DRIVER, FINALIZER, Names
from driver.wire import Json

FREE_MODEL = "L40S"
FREED_MODEL = "H100"
"""The model of the cards that are freed; the first shape waits for one of them."""
_NO_MODEL = "B200"
_NAMES = Names(DEFAULT_DRIVER)


@dataclass(frozen=True)
class Holder:
    """A pod on a node, and the cards that its claim holds."""

    name: str
    model: str
    node: str
    devices: tuple[str, ...]

    @property
    def device(self) -> tuple[str, str]:
        """Pool and name of the first device."""
        return _NAMES.pool(self.node), self.devices[0]


def holders(cards: Sequence[Model], freed: int) -> Iterator[Holder]:
    """The pods that hold all cards but those of the free model; the first ``freed`` of them hold one card each.

    At least ``freed`` are yielded if the fleet has so many cards of the model that is freed.
    """
    freeing = [number for number, model in enumerate(cards) if model.type == FREED_MODEL][: -(-freed // CARDS)]
    for number in freeing:
        for index in range(CARDS):
            yield Holder(f"single-{number}-{index}", FREED_MODEL, node_name(number), (f"gpu-{index}",))
    every = tuple(f"gpu-{index}" for index in range(CARDS))
    for number, model in enumerate(cards):
        if number not in freeing and model.type != FREE_MODEL:
            yield Holder(f"all-{number}", model.type, node_name(number), every)


def holder_pod(holder: Holder) -> Json:
    """The pod: bound, and deleted at once when it is deleted, because no kubelet has to end it."""
    spec = {"nodeName": holder.node, "terminationGracePeriodSeconds": 0}
    return pod(holder.name, spec=spec, claim={"resourceClaimName": holder.name})


def holder_claim(holder: Holder) -> Json:
    """The claim, with the finalizer of an allocated claim."""
    return claim(holder.name, card_request(holder.model, count=len(holder.devices)), finalizers=[FINALIZER])


def holder_status(holder: Holder, uid: str) -> Json:
    """The claim's status, allocated and reserved for the pod with ``uid``."""
    results = [{"request": "card", "device": device} for device in holder.devices]
    return held_status(holder.node, results, holder.name, uid)


def claim(name: str, request: Json, **metadata: object) -> Json:
    """A claim with one request."""
    meta = {"name": name, "namespace": NAMESPACE, **metadata}
    return {"metadata": meta, "spec": {"devices": {"requests": [request]}}}


def waiting_claim(number: int) -> Json:
    """The claim of a waiting pod."""
    return claim(f"waiting-{number}", _SHAPES[number % len(_SHAPES)].request)


def waiting_pod(number: int) -> Json:
    """A pod that waits, as it is after it was created: with our gate."""
    shape, name = _SHAPES[number % len(_SHAPES)], f"waiting-{number}"
    spec = {"schedulingGates": [{"name": _NAMES.gate}], "nodeSelector": shape.node_selector}
    return pod(name, spec=spec, claim={"resourceClaimName": name}, requests={"cpu": shape.cpu})


@dataclass(frozen=True)
class _Shape:
    """What a waiting pod requests."""

    request: Json
    node_selector: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "100m"


_SHAPES = (
    _Shape(card_request(FREED_MODEL, gibibytes=40)),
    _Shape(card_request(FREED_MODEL, count=CARDS)),
    _Shape(card_request("A100", gibibytes=40, count=2)),
    _Shape(card_request("H200", count=4)),
    _Shape(card_request(_NO_MODEL)),
    _Shape(card_request(FREE_MODEL), node_selector={"shelf": "top"}),
    _Shape(card_request(FREE_MODEL), cpu="1000"),
)
"""Models that are in use, a model that does not exist, a node that does not exist, and more CPU than a node has."""


def fitting_claim(name: str) -> Json:
    """The claim of a pod that fits at once."""
    return claim(name, card_request(FREE_MODEL))


def fitting_pod(name: str) -> Json:
    """A pod that fits at once."""
    return pod(name, spec={}, claim={"resourceClaimName": name})


def is_gated(raw: Json) -> bool:
    """Whether a pod still has our gate."""
    return any(gate["name"] == _NAMES.gate for gate in raw["spec"].get("schedulingGates", ()))


def held(raw: Json) -> list[tuple[str, str]]:
    """Pool and name of the devices that a claim holds."""
    allocation = (raw.get("status") or {}).get("allocation") or {}
    return [(result["pool"], result["device"]) for result in allocation.get("devices", {}).get("results", [])]
