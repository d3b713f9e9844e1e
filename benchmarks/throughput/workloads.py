"""The workloads: nodes, what their cards are offered as, what is in use already, and the request of each pod."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from benchmarks import controlplane, fleet
from benchmarks.allocation.hardware import CARDS, MODELS, Model
from benchmarks.controlplane import NAMESPACE
from benchmarks.fleet import card_request, node_name
from controller.allocation.requests import RESULTS_LIMIT
from driver.kinds import EVERY_OFFER, Offer
from driver.names import DEFAULT_DRIVER, FINALIZER
from driver.wire import Json
from kubeletplugin.hardware.partitions import H100_80GB

TEMPLATE = "one"
SHARES = 4
"""The shares that each card has in the workload of shares; together they have 90 % of its memory."""
_SHARE_GIBIBYTES = 18
_H100 = MODELS[0]

Result = Mapping[str, object]
"""What a claim holds on a node, in the API's JSON, without driver, pool and request."""


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    ``times_peer`` is the bar: how many times kube-scheduler's rate ours must be. ``used`` returns what is in use on the
    node with a number at the start.
    """

    name: str
    nodes: int
    pods: int
    times_peer: float
    request: Json
    offer: tuple[Offer, ...] = fleet.WHOLE
    same_model: bool = False
    default_limits: bool = False
    """Whether kube-scheduler has its default client limits: 50 calls a second."""
    used: Callable[[int], Sequence[Result]] | None = None
    gang: int = 0
    """How many pods form a gang in one IB cluster; 0: single pods."""

    def template(self, number: int) -> str:
        """The name of the claim template of the pod with a number."""
        return f"gang-{number // self.gang}" if self.gang else TEMPLATE

    def templates(self) -> list[Json]:
        """The claim templates: one for single pods, and one for each gang."""
        gangs = [] if not self.gang else sorted({self.template(number) for number in range(self.pods)})
        return [_template(TEMPLATE, self.request), *(_template(it, self.request, self.gang) for it in gangs)]

    @property
    def title(self) -> str:
        """The name with the number of nodes."""
        return f"{self.name}, {self.nodes:,} nodes"

    def cards(self) -> list[Model]:
        """The card model of each node."""
        return [_H100] * self.nodes if self.same_model else fleet.models(self.nodes)

    def holders(self) -> Iterator["Holder"]:
        """The pods that run at the start, each with a claim of as many devices as a claim can have."""
        if self.used is None:
            return
        for number in range(self.nodes):
            results, device_class = self.used(number), self.request["exactly"]["deviceClassName"]
            for first in range(0, len(results), RESULTS_LIMIT):
                part = results[first : first + RESULTS_LIMIT]
                yield Holder(f"holder-{number}-{first}", node_name(number), device_class, part)


@dataclass(frozen=True)
class Holder:
    """A pod that runs on a node, and what its claim of the same name holds there: one device for each request."""

    name: str
    node: str
    device_class: str
    results: Sequence[Result]

    def claim(self) -> Json:
        """The claim, with the finalizer of an allocated claim."""
        exactly = {"deviceClassName": self.device_class}
        requests = [{"name": f"r{i}", "exactly": exactly} for i in range(len(self.results))]
        metadata = {"name": self.name, "namespace": NAMESPACE, "finalizers": [FINALIZER]}
        return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}

    def pod(self) -> Json:
        """The pod, which is bound already."""
        return controlplane.pod(self.name, spec={"nodeName": self.node}, claim={"resourceClaimName": self.name})

    def status(self, pod_uid: str) -> Json:
        """The claim's status: allocated, and reserved for the pod with ``pod_uid``."""
        results = [{"request": f"r{i}", **result} for i, result in enumerate(self.results)]
        return controlplane.held_status(self.node, results, self.name, pod_uid)


def _used_cards(number: int) -> int:
    """The cards of a node that are in use, if 90 % of the cluster's are: 8 or 7 of 8."""
    return CARDS if number % 5 == 0 else CARDS - 1


def _cards(number: int) -> list[Result]:
    return [{"device": f"gpu-{index}"} for index in range(_used_cards(number))]


def _shares(number: int) -> list[Result]:
    """``SHARES`` on each card. The order of the cards is that of their shares, as with many claims of one share."""
    random = Random(f"shares {number}")
    consumed = {"memory": f"{_SHARE_GIBIBYTES}Gi", "cores": "0", "slots": "1"}
    return [
        {
            "device": f"gpu-{index}-share",
            "shareID": str(UUID(int=random.getrandbits(128), version=4)),
            "consumedCapacity": consumed,
        }
        for index in range(CARDS)
        for _ in range(SHARES)
    ]


def _partitions(number: int) -> list[Result]:
    """Partitions drawn at random until no other fits, on 90 % of the cards."""
    random = Random(f"partitions {number}")
    return [{"device": f"gpu-{index}-mig-{suffix}"} for index in range(_used_cards(number)) for suffix in _full(random)]


def _full(random: Random) -> Iterator[str]:
    left = dict(H100_80GB.counters)
    for partition in random.sample(H100_80GB.partitions, len(H100_80GB.partitions)):
        if all(left[name] >= amount for name, amount in partition.draws.items()):
            left = {name: amount - partition.draws.get(name, 0) for name, amount in left.items()}
            yield partition.suffix


def _template(name: str, request: Json, gang: int = 0) -> Json:
    spec: dict[str, object] = {"requests": [request]}
    if gang:
        parameters = {
            "apiVersion": "lode.dev/v1alpha1",
            "kind": "PlacementConfig",
            "gang": {"name": name, "minAvailable": gang},
            "topology": [{"attribute": f"{DEFAULT_DRIVER}/ibCluster"}],
        }
        spec["config"] = [{"opaque": {"driver": DEFAULT_DRIVER, "parameters": parameters}}]
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": spec}}}


def _request(device_class: str, selector: str = "", memory: str = "") -> Json:
    exactly: dict[str, object] = {"deviceClassName": f"{device_class}.{DEFAULT_DRIVER}"}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    return {"name": "card", "exactly": exactly}


_ANY_CARD = _request("gpu")
_CARD = card_request("H100", gibibytes=40)
_SHARE = _request("gpu-share", memory="4Gi")
_PARTITION = _request("mig", f'device.attributes["{DEFAULT_DRIVER}"].profile == "1g.10gb"')

_EMPTY = Workload("a card, empty", 1000, 600, 5, _CARD)
_FULL = Workload("a card, 90 % in use", 1000, 250, 5, _CARD, used=_cards)
_SHARE_OF_ANY_KIND = Workload(
    "a share of a card of any kind, 90 % in use",
    1000,
    400,
    10,
    _SHARE,
    offer=EVERY_OFFER,
    same_model=True,
    used=_shares,
)
_MIG = Workload(
    "a MIG partition, 90 % in use",
    1000,
    400,
    10,
    _PARTITION,
    offer=("partitions",),
    same_model=True,
    used=_partitions,
)
_NO_SELECTOR = Workload("any card (no selector), empty", 500, 600, 1, _ANY_CARD)
_GANGS = replace(_EMPTY, name="a card, in gangs of 8, empty", gang=8)
WORKLOADS = (
    _EMPTY,
    _FULL,
    Workload("a share, 90 % in use", 1000, 400, 10, _SHARE, offer=("share",), same_model=True, used=_shares),
    _SHARE_OF_ANY_KIND,
    _MIG,
    replace(_EMPTY, nodes=500, times_peer=1),
    _NO_SELECTOR,
    replace(_EMPTY, name="a card, empty, default client limits", times_peer=1, default_limits=True),
    _GANGS,
    *(replace(one, nodes=5000, pods=800, times_peer=5) for one in (_EMPTY, _FULL, _SHARE_OF_ANY_KIND, _MIG)),
    replace(_NO_SELECTOR, nodes=5000, pods=800),
    replace(_GANGS, nodes=5000, pods=800),
)
"""Every pod has a claim from a template. A card "of any kind" is published whole, as a share and in partitions, as
by default. The workload without a selector has the shape of Kubernetes' own benchmark, scheduler_perf. kube-scheduler
alone knows nothing of gangs, and binds their pods one by one."""
