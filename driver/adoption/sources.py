"""The systems whose pods are adopted: their resources, annotations and rules. Pure.

NVIDIA: the device plugin. HAMi: its README and webhook. Volcano: deviceshare and the vGPU device plugin. Ascend: HAMi's
Ascend device plugin, and Huawei's (MindCluster).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from driver.adoption import migs
from driver.adoption.chips import CHIPS, STATIC_VNPUS, AscendResource
from driver.adoption.naming import PLAIN
from driver.adoption.rules import (
    MOST,
    MOST_DEVICES,
    MOST_MIB,
    Among,
    Bound,
    IgnoredInInit,
    NeedsAmount,
    NeedsText,
    NoEmptyEntry,
    NoneOf,
    NotTogether,
    OnlyKnown,
    ReadHere,
    ReadOtherwise,
    Rule,
    Values,
    WholeIfSeveral,
)


@dataclass(frozen=True, slots=True)
class CardAmounts:
    """Resources that say together which cards are wanted: how many, and how much of each.

    Attributes:
        percent_first: whether a percentage counts where there is also an amount of memory; else the memory does.
        exclusive: whether 100 cores are the whole card; then memory is what the card has at least.
        unit: how many of ``count`` are a whole card, of which fewer are a part; 0 if ``count`` is a number of cards.
    """

    count: str
    memory: str = ""
    percent: str = ""
    cores: str = ""
    percent_first: bool = False
    exclusive: bool = False
    unit: int = 0

    @property
    def names(self) -> tuple[str, str, str, str]:
        """The resources; "" for one that there is not."""
        return self.count, self.memory, self.percent, self.cores

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that there are."""
        return tuple(filter(None, self.names))


@dataclass(frozen=True, slots=True)
class AdoptionSource:
    """A system whose pods are adopted.

    Attributes:
        name: in names of templates, of policies and of the label of namespaces.
        resources: the token of each extended resource, in the order of the name.
        cards: resources that say together which cards are wanted; any other one is a number of devices.
        counts: resources that are numbers of devices: with 0 of one, a container asks for nothing.
        shared: resources that are added up over the containers of a pod, which use one claim together.
        annotations: the key in names of each annotation that means something.
        labels: the same of labels of the pod.
        trimmed: annotations with lists whose entries may have blanks around them, which mean nothing.
        outputs: an annotation that shows that the annotation of its value was written by the system, not the user.
        environment: resources that only set a variable of the container.
        migs: whether there are also resources for MIG profiles (``driver.adoption.migs``).
        schedulers: names of schedulers that are set back to the default: that of the system, and Volcano's, whose jobs
            ask for the resources of any system.
        rules: what is refused or noted.
    """

    name: str
    resources: Mapping[str, str]
    cards: tuple[CardAmounts, ...] = ()
    counts: tuple[str, ...] = ()
    shared: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    trimmed: frozenset[str] = frozenset()
    outputs: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    migs: bool = False
    schedulers: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """The key in names of each annotation and label that means something."""
        return {**self.annotations, **self.labels}

    @property
    def listed(self) -> tuple[str, ...]:
        """The resources that have a name, and no pattern."""
        return (*self.resources, *self.environment)

    @property
    def pattern(self) -> str:
        """Regular expression of the resources that have a pattern; "" without any."""
        patterns = [*([migs.RESOURCES] if self.migs else []), *(filter(None, [self.refused]))]
        return "|".join(f"({pattern})" for pattern in patterns)

    @property
    def refused(self) -> str:
        """Regular expression of resources that nothing can stand for; "" without any."""
        return next((rule.pattern for rule in self.rules if isinstance(rule, NoneOf)), "")

    def taken(self, resources: Iterable[str]) -> list[str]:
        """Return those that are taken out of containers: in the order of the table, and then by name."""
        asked = set(resources)
        by_name = sorted(it for it in asked if self.pattern and re.fullmatch(self.pattern, it))
        return [*(it for it in self.listed if it in asked), *by_name]

    def counts_nothing(self, resource: str) -> bool:
        """Whether one of its resources is no amount of devices, but is refused or only a variable."""
        return resource in self.environment or (bool(self.refused) and re.fullmatch(self.refused, resource) is not None)

    def token(self, resource: str) -> str:
        """Return the token of a resource in names of templates."""
        return self.resources.get(resource) or migs.token_of(resource)

    def has_token(self, token: str) -> bool:
        """Whether a token is of one of its resources."""
        return token in self.resources.values() or (self.migs and bool(migs.profile_of_token(token)))


_CLAIM = f"ask for at most {MOST_DEVICES} in one container"
_BYTES = f"the unit is MiB, and an amount has no suffix: write 1024 instead of 1Gi; at most {MOST_MIB}"
_PERCENT = "it is a percentage: write 1 to 100"
_CORES = "no card has more than 100: write 1 to 100"
_SLICES = f"(nvidia[.]com/gpu|{migs.RESOURCES})[.]shared"
"""What the device plugin calls time slices, if it is told to rename them."""
_SLICED = "a time slice has no size: ask for nvidia.com/gpu, or for a share with a claim (docs/requests.md)"
_ALL_MEMORY = "0 is all of the memory: remove it, or write how much"
_ALL_CORES = "more than 100 cores are the whole card, with all of its memory: write 1 to 100"
_UNKNOWN = "it means nothing here: remove it"
_UUIDS: Mapping[str, str] = {
    f"hami.io/{use}-{chip.resource.partition('/')[2]}-uuid": f"{key}{chip.token[1:]}"
    for chip in CHIPS
    if chip.capacity_mib
    for use, key in (("use", "u"), ("no-use", "nu"))
}
"""Annotations that choose NPUs of a chip, and their keys in names."""
_POLICIES: Mapping[str, str] = {"hami.io/node-scheduler-policy": "sn", "hami.io/gpu-scheduler-policy": "sg"}
_OF_HAMI = OnlyKnown("hami.io/", frozenset({*_UUIDS, *_POLICIES}), _UNKNOWN)
_TYPES = "an empty entry stands for every card, and is left out: remove it"

NVIDIA: Final = AdoptionSource(
    name="nvidia",
    resources={"nvidia.com/gpu": "n"},
    migs=True,
    schedulers=("volcano",),
    rules=(Bound("nvidia.com/gpu", MOST_DEVICES, _CLAIM), NoneOf(_SLICES, _SLICED)),
)

_HAMI_CARDS = CardAmounts(
    "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", exclusive=True
)
_VOLCANO_CARDS = CardAmounts(
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
    percent_first=True,
    exclusive=True,
)


def _with_memory(key: str, cards: CardAmounts) -> NeedsAmount:
    remedy = f"mode mig needs an amount of memory in MiB: add {cards.memory}"
    return NeedsAmount(key, "mig", cards.resources, cards.memory, remedy)


HAMI: Final = AdoptionSource(
    name="hami",
    resources={
        "nvidia.com/gpu": "n",
        "nvidia.com/gpumem": "m",
        "nvidia.com/gpumem-percentage": "p",
        "nvidia.com/gpucores": "c",
    },
    migs=True,
    cards=(_HAMI_CARDS,),
    counts=("nvidia.com/gpu",),
    annotations={
        "nvidia.com/use-gputype": "t",
        "nvidia.com/nouse-gputype": "nt",
        "nvidia.com/use-gpuuuid": "u",
        "nvidia.com/nouse-gpuuuid": "nu",
        "nvidia.com/numa-bind": "b",
        "nvidia.com/vgpu-mode": "v",
        **_POLICIES,
    },
    trimmed=frozenset(f"nvidia.com/{it}" for it in ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid")),
    environment={"nvidia.com/priority": "CUDA_TASK_PRIORITY"},
    schedulers=("hami-scheduler", "volcano"),
    rules=(
        Bound("nvidia.com/gpu", MOST_DEVICES, _CLAIM),
        Bound("nvidia.com/gpumem", MOST_MIB, _BYTES),
        Bound("nvidia.com/gpumem-percentage", 100, _PERCENT),
        ReadOtherwise("nvidia.com/gpumem", 1, MOST, _ALL_MEMORY),
        ReadOtherwise("nvidia.com/gpumem-percentage", 1, MOST, _ALL_MEMORY),
        ReadOtherwise("nvidia.com/gpucores", 0, 100, _ALL_CORES),
        Values("nvidia.com/vgpu-mode", ("hami-core", "mig", "mps"), "use hami-core, mig or mps"),
        _with_memory("nvidia.com/vgpu-mode", _HAMI_CARDS),
        Values("nvidia.com/numa-bind", ("true", "false", "t", "f", "1", "0"), "write true or false"),
        Values("hami.io/node-scheduler-policy", ("binpack", "spread"), "use binpack or spread"),
        Values(
            "hami.io/gpu-scheduler-policy",
            ("binpack", "spread", "numa", "topology-aware"),
            "use binpack, spread, numa or topology-aware",
        ),
        NoEmptyEntry("nvidia.com/use-gputype", _TYPES, noted=True),
        NoEmptyEntry("nvidia.com/nouse-gputype", "an empty entry is left out: remove it", noted=True),
        _OF_HAMI,
    ),
)

VOLCANO: Final = AdoptionSource(
    name="volcano",
    resources={
        "volcano.sh/vgpu-number": "n",
        "volcano.sh/vgpu-memory": "m",
        "volcano.sh/vgpu-memory-percentage": "p",
        "volcano.sh/vgpu-cores": "c",
        "volcano.sh/gpu-number": "w",
        "volcano.sh/gpu-memory": "s",
    },
    cards=(_VOLCANO_CARDS,),
    counts=("volcano.sh/vgpu-number",),
    shared=frozenset({"volcano.sh/gpu-memory"}),
    annotations={
        "nvidia.com/use-gputype": "t",
        "nvidia.com/nouse-gputype": "nt",
        "volcano.sh/vgpu-use-gpuuuid": "u",
        "volcano.sh/vgpu-nouse-gpuuuid": "nu",
        "volcano.sh/vgpu-mode": "v",
        "volcano.sh/gpu-index": "i",
    },
    trimmed=frozenset({"volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"}),
    outputs={"volcano.sh/predicate-time": "volcano.sh/gpu-index"},
    schedulers=("volcano",),
    rules=(
        Bound("volcano.sh/vgpu-number", MOST_DEVICES, _CLAIM),
        Bound("volcano.sh/gpu-number", MOST_DEVICES, _CLAIM),
        Bound("volcano.sh/vgpu-memory", MOST_MIB, _BYTES),
        Bound("volcano.sh/gpu-memory", MOST_MIB, _BYTES),
        Bound("volcano.sh/vgpu-memory-percentage", 100, _PERCENT),
        Bound("volcano.sh/vgpu-cores", 100, _CORES),
        ReadOtherwise("volcano.sh/vgpu-memory", 1, MOST, _ALL_MEMORY),
        ReadOtherwise("volcano.sh/vgpu-memory-percentage", 1, MOST, _ALL_MEMORY),
        NotTogether(
            ("volcano.sh/gpu-number", "volcano.sh/gpu-memory"),
            "volcano.sh/gpu-number asks for whole cards, volcano.sh/gpu-memory for a part of one: remove one of them",
        ),
        Values(
            "volcano.sh/vgpu-mode",
            ("hami-core", "mig"),
            "Volcano starts no pod with another mode: use hami-core or mig",
        ),
        _with_memory("volcano.sh/vgpu-mode", _VOLCANO_CARDS),
        ReadHere(
            "volcano.sh/gpu-index",
            "Volcano writes it and reads none; here it chooses the cards. Remove it if any card will do",
        ),
        Values(
            "volcano.sh/vgpu-podgroup-policy",
            ("",),
            "pods of a group cannot be kept on different cards by it: ask for whole cards, or remove the annotation",
        ),
        NoEmptyEntry("nvidia.com/use-gputype", _TYPES, noted=True),
        NoEmptyEntry("nvidia.com/nouse-gputype", "an empty entry excludes every card: remove it"),
        IgnoredInInit(
            frozenset(f"volcano.sh/vgpu-{name}" for name in ("number", "memory", "memory-percentage", "cores")),
            "Volcano gives init containers none of it; here they get it. Remove it if it is not needed",
        ),
    ),
)


_NPU_CORES = "write 1, 2 or 4, or a multiple of 8 for whole cards"
_DIES = "a module has two dies, which are given together: write 1, or an even number"


def _of_chip(chip: AscendResource) -> dict[str, str]:
    tokens = {chip.resource: f"{chip.token}n"}
    if chip.capacity_mib:
        tokens |= {f"{chip.resource}-memory": f"{chip.token}m", f"{chip.resource}-core": f"{chip.token}c"}
    return tokens


def _chip_rules(chip: AscendResource) -> tuple[Rule, ...]:
    rules: tuple[Rule, ...] = (Bound(chip.resource, MOST_DEVICES, _CLAIM),)
    if not chip.capacity_mib:
        return rules
    memory, core = f"{chip.resource}-memory", f"{chip.resource}-core"
    return (
        *rules,
        Bound(memory, chip.capacity_mib, f"the unit is MiB, and a card has {chip.capacity_mib}: ask for less"),
        Bound(core, 100, _CORES),
        NeedsText(core, "huawei.com/vnpu-mode", "hami-core", "a part of the cores needs this annotation: add it"),
        *(() if chip.dies == 1 else (Among(chip.resource, (1,), chip.dies, _DIES),)),
        WholeIfSeveral(
            chip.resource,
            memory,
            chip.allocatable_mib,
            f"several cards are given whole: remove it, or ask for at least {chip.allocatable_mib}",
        ),
    )


ASCEND: Final = AdoptionSource(
    name="ascend",
    resources={
        **{name: token for chip in CHIPS for name, token in _of_chip(chip).items()},
        **{vnpu.resource: vnpu.token for vnpu in STATIC_VNPUS},
        "huawei.com/npu-core": "k",
    },
    cards=(
        *(
            CardAmounts(chip.resource, f"{chip.resource}-memory", cores=f"{chip.resource}-core")
            for chip in CHIPS
            if chip.capacity_mib
        ),
        CardAmounts("huawei.com/npu-core", unit=8),
    ),
    annotations={"huawei.com/vnpu-mode": "v", **_UUIDS},
    labels={"vnpu-level": "l", "vnpu-dvpp": "d"},
    trimmed=frozenset(_UUIDS),
    schedulers=("volcano", "hami-scheduler"),
    rules=(
        *(rule for chip in CHIPS for rule in _chip_rules(chip)),
        *(Bound(vnpu.resource, MOST_DEVICES, _CLAIM) for vnpu in STATIC_VNPUS),
        Bound("huawei.com/npu-core", 8 * MOST_DEVICES, _NPU_CORES),
        Among("huawei.com/npu-core", (1, 2, 4), 8, _NPU_CORES),
        Values("huawei.com/vnpu-mode", ("hami-core",), "use hami-core, or remove it for templates"),
        Values("vnpu-level", ("low", "high"), "use low or high"),
        Values("vnpu-dvpp", ("yes", "no", "null"), "use yes, no or null"),
        _OF_HAMI,
    ),
)

_PLAIN: Final = AdoptionSource(name=PLAIN, resources={}, schedulers=("volcano",))

SOURCES: Final[Mapping[str, AdoptionSource]] = {
    source.name: source for source in (NVIDIA, HAMI, VOLCANO, ASCEND, _PLAIN)
}
"""The sources by name. ``plain`` has no table of its own: the operator gives it one."""
