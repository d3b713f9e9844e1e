"""Which pods there are at each turn, from a seed. Whatever happens to the cluster, the same seed wants the same pods.

What stands at a turn is a set, as a Deployment wants replicas: who plays it makes what is missing and deletes what is
too much. So a pod that an older snapshot brings back goes, and one that it has lost is made again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Final

from tests.e2e.pods import pod, request, template

Object = dict[str, Any]

CHAOS, ADOPTED = "chaos", "chaos-adopted"
"""The namespaces of the pods. In the second, those of NVIDIA's and Huawei's device plugins are adopted."""
OTHER_DRIVER: Final = "gpu.example.com"
"""Another driver, and the class of its devices, which kube-scheduler allocates."""
ANY_CARD: Final = "chaos-card.lode.dev"
"""A class for a whole card of any vendor."""
BRIDGED: Final = "amd.com/gpu"
"""The resource of the device plugin that runs under Lode."""
LABEL: Final = "chaos"
"""The label of the pods of the workload; its value is their flavour."""

_PER_TURN: Final = (1, 3)
_TURNS: Final = (2, 14)
"""How many turns a pod lives."""
_GANG_MEMBERS: Final = (2, 3)
_PROFILE: Final = 'device.attributes["lode.dev"].profile == '


class Flavour(StrEnum):
    """What a pod asks for, and how."""

    WHOLE = "whole"
    PAIR = "pair"
    SHARE = "share"
    MIG = "mig"
    NPU = "npu"
    VNPU = "vnpu"
    GANG = "gang"
    BRIDGED = "bridged"
    ADOPTED = "adopted"
    ADOPTED_NPU = "adopted-npu"
    FOREIGN = "foreign"
    MIXED = "mixed"
    NIC = "nic"
    CARD_AND_NIC = "card-and-nic"


WITH_NICS: Final = (Flavour.NIC, Flavour.CARD_AND_NIC)
"""Flavours with devices of a driver for which Lode is told to allocate."""
WITHOUT_NICS: Final = tuple(flavour for flavour in Flavour if flavour not in WITH_NICS)
_NIC: Final = {"name": "nic", "exactly": {"deviceClassName": "dranet.net"}}
_ONE_ROOT: Final = {"requests": ["card", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
TEMPLATES: Final[Mapping[Flavour, Sequence[Object]]] = {
    Flavour.WHOLE: [request("gpu")],
    Flavour.PAIR: [request("gpu", count=2)],
    Flavour.SHARE: [request("gpu-share", memory="16Gi")],
    Flavour.MIG: [request("mig", selector=f'{_PROFILE}"1g.10gb"')],
    Flavour.NPU: [request("npu")],
    Flavour.VNPU: [request("vnpu", selector=f'{_PROFILE}"vir02"')],
    Flavour.BRIDGED: [request("device", selector=f'device.attributes["lode.dev"].resource == "{BRIDGED}"')],
    Flavour.FOREIGN: [{"name": "card", "exactly": {"deviceClassName": OTHER_DRIVER}}],
    Flavour.NIC: [_NIC],
    Flavour.CARD_AND_NIC: [request("gpu"), _NIC],
}
"""The requests of the claim of a pod, by its flavour."""
_OLD: Final = {Flavour.ADOPTED: "nvidia.com/gpu", Flavour.ADOPTED_NPU: "huawei.com/Ascend310P"}
"""The resource of a device plugin that pods name, which are adopted."""
_WEIGHTS: Final = {
    Flavour.WHOLE: 3,
    Flavour.SHARE: 3,
    Flavour.MIG: 3,
    Flavour.VNPU: 2,
    Flavour.BRIDGED: 2,
    Flavour.ADOPTED: 2,
    Flavour.FOREIGN: 2,
    Flavour.CARD_AND_NIC: 3,
}
"""How much more often than others."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod, or the pods of a gang, and the turns at which it exists."""

    name: str
    flavour: Flavour
    begins: int
    ends: int
    """The first turn at which it does not exist any more."""
    members: int = 1

    @property
    def namespace(self) -> str:
        """The namespace of its pods."""
        return ADOPTED if self.flavour in _OLD else CHAOS

    @property
    def pods(self) -> Sequence[str]:
        """The names of its pods."""
        return [self.name] if self.flavour != Flavour.GANG else [f"{self.name}-{it}" for it in range(self.members)]

    def objects(self, pods: Sequence[str]) -> Iterator[Object]:
        """These of its pods, after the template that its gang alone has."""
        if self.flavour == Flavour.GANG:
            yield _gang(self.name, self.members)
        for name in pods:
            yield _pod(name, self)


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of a run."""

    seed: int
    flavours: Sequence[Flavour] = WITHOUT_NICS

    def made(self, turn: int) -> Sequence[Wanted]:
        """What begins at a turn; at turn 0, one of each flavour."""
        random = Random(f"pods/{self.seed}/{turn}")
        if turn == 0:
            return [self._drawn(random, flavour, 0, number) for number, flavour in enumerate(self.flavours)]
        weights = [_WEIGHTS.get(flavour, 1) for flavour in self.flavours]
        drawn = random.choices(self.flavours, weights, k=random.randint(*_PER_TURN))
        return [self._drawn(random, flavour, turn, number) for number, flavour in enumerate(drawn)]

    def standing(self, turn: int) -> Sequence[Wanted]:
        """What exists at a turn."""
        begun = range(max(0, turn - _TURNS[1]), turn + 1)
        return [one for earlier in begun for one in self.made(earlier) if one.ends > turn]

    @staticmethod
    def _drawn(random: Random, flavour: Flavour, turn: int, number: int) -> Wanted:
        members = random.randint(*_GANG_MEMBERS) if flavour == Flavour.GANG else 1
        ends = turn + random.randint(*_TURNS)
        return Wanted(f"{flavour}-{turn}-{number}", flavour, turn, ends, members)


def templates() -> Iterator[Object]:
    """The claim templates of all pods but gangs, and the class of a gang's cards."""
    for flavour, requests in TEMPLATES.items():
        constraints = [_ONE_ROOT] if flavour == Flavour.CARD_AND_NIC else []
        yield template(flavour, *requests, constraints=constraints)
    expression = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind in ["gpu", "npu"]'
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": ANY_CARD},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _gang(name: str, members: int) -> Object:
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": name, "minAvailable": members},
        "topology": [{"attribute": "lode.dev/ibCluster"}],
    }
    card = {"name": "card", "exactly": {"deviceClassName": ANY_CARD, "count": 1}}
    return template(name, card, config=[{"opaque": {"driver": "lode.dev", "parameters": parameters}}])


def _pod(name: str, wanted: Wanted) -> Object:
    labels = {LABEL: str(wanted.flavour)}
    match wanted.flavour:
        case Flavour.ADOPTED | Flavour.ADOPTED_NPU:
            made = pod(name, labels=labels)
            made["spec"]["containers"][0]["resources"]["limits"] = {_OLD[wanted.flavour]: "1"}
            return made
        case Flavour.GANG:
            return pod(name, wanted.name, labels=labels)
        case Flavour.MIXED:
            return pod(name, Flavour.SHARE, Flavour.FOREIGN, labels=labels)
        case flavour:
            return pod(name, flavour, labels=labels)


@dataclass(frozen=True, slots=True)
class Step:
    """What is made and deleted so that exactly those pods stand that a turn wants; by namespace."""

    made: Mapping[str, Sequence[Object]]
    deleted: Mapping[str, Sequence[str]]
    """The names of pods."""


def step(standing: Sequence[Wanted], present: Mapping[tuple[str, str], Object]) -> Step:
    """What is to be done.

    Args:
        present: the pods of the workload, by namespace and name.
    """
    names = {(one.namespace, name) for one in standing for name in one.pods}
    # One that has ended for good would be replaced by its controller.
    ended = {key for key, it in present.items() if (it.get("status") or {}).get("phase") in ("Failed", "Succeeded")}
    going = {key for key, it in present.items() if "deletionTimestamp" in it["metadata"]}
    made: dict[str, list[Object]] = {}
    for one in standing:
        if missing := [name for name in one.pods if (one.namespace, name) not in present]:
            made.setdefault(one.namespace, []).extend(one.objects(missing))
    deleted: dict[str, list[str]] = {}
    for namespace, name in sorted((present.keys() - names | ended) - going):
        deleted.setdefault(namespace, []).append(name)
    return Step(made, deleted)
