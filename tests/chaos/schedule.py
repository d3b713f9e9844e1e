"""Which faults come when, from a seed. The same seed gives the same faults in the same order.

Faults come in rounds: each kind once in a round, in an order that is drawn, so that every kind is spread over the run.
Kinds that follow from each other keep their order: Lode is downgraded before it is upgraded again, and etcd is not
restored to a time before such a change, because that would undo it, too.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

LEAST_TIMES: Final = 10
"""How often each kind comes in a run, at least."""
SNAPSHOT_AGES: Final = (60.0, 240.0)
"""Seconds: the age of a snapshot of etcd that is restored, if there is one as old as that."""
DISK_SECONDS: Final = (5.0, 25.0)
"""How long a disk is full."""
_SEVERAL: Final = (2, 4)
"""How many programs are killed at once."""
FAULTS_BEFORE_RESTORE: Final = 4
"""How many other faults come between a change of Lode's version and a restore, so that there are snapshots since."""


class Kind(StrEnum):
    """A kind of fault, as the table calls it."""

    CONTROLLER = "controller killed"
    PLUGIN = "kubelet plugin killed"
    DEVICE_PLUGIN = "vendor's device plugin killed"
    OTHER_DRIVER = "other DRA driver killed"
    KUBELET = "kubelet killed"
    CONTAINERD = "containerd killed"
    API_SERVER = "API server killed"
    ETCD = "etcd killed"
    SCHEDULER = "kube-scheduler killed"
    CONTROLLER_MANAGER = "kube-controller-manager killed"
    SEVERAL = "several programs killed at once"
    NODE = "node restarted"
    DISK = "small disk of a node full"
    DOWNGRADE = "Lode downgraded"
    UPGRADE = "Lode upgraded"
    RESTORE = "etcd restored from a snapshot"
    RAISE = "etcd restored, its revision raised"


ON_NODES: Final = frozenset((Kind.PLUGIN, Kind.KUBELET, Kind.CONTAINERD, Kind.NODE, Kind.DISK, Kind.OTHER_DRIVER))
"""Kinds that are done to one worker."""
KILLS: Final = (
    Kind.CONTROLLER,
    Kind.PLUGIN,
    Kind.DEVICE_PLUGIN,
    Kind.OTHER_DRIVER,
    Kind.KUBELET,
    Kind.CONTAINERD,
    Kind.API_SERVER,
    Kind.ETCD,
    Kind.SCHEDULER,
    Kind.CONTROLLER_MANAGER,
)
"""Kinds that kill the processes of one program."""

RESTORES: Final = frozenset((Kind.RESTORE, Kind.RAISE))
"""Kinds that bring back an older state of the API. With a raised revision, as Kubernetes' pages say, programs learn it
by themselves; without, watches from later versions say nothing, and programs but Lode's are restarted."""
_CHANGES: Final = frozenset((Kind.DOWNGRADE, Kind.UPGRADE))
_BEFORE_THE_OLD: Final = ((4, 5), (7, 8), {Kind.DOWNGRADE: (9, 10), Kind.UPGRADE: (12, 13)})
_DURING_THE_OLD: Final = ((6, 7), (9, 10), {Kind.DOWNGRADE: (0, 1, 2), Kind.UPGRADE: (12, 13)})
"""In a round, how many of the other kinds come before the two restores, one after the other, and before a change of the
version: etcd is restored under the one version or the other."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that is planned."""

    at: float
    """Seconds since the start of the run before which it does not come."""
    kind: Kind
    worker: int = 0
    """The number of the worker, of the kinds `ON_NODES`."""
    seconds: float = 0.0
    """How long a disk is full, or the age of a snapshot."""
    kills: tuple[tuple[Kind, int], ...] = ()
    """What is killed at once, each with the number of the worker."""

    def __str__(self) -> str:
        places = f" on worker {self.worker}" if self.kind in ON_NODES else ""
        lasting = f", {self.seconds:.0f} s" if self.seconds else ""
        killed = ", ".join(f"{kind}{f' on worker {worker}' if kind in ON_NODES else ''}" for kind, worker in self.kills)
        return f"{self.kind}{places}{lasting}{f': {killed}' if killed else ''}"


OF_ONE_VERSION: Final = tuple(kind for kind in Kind if kind not in _CHANGES)
"""Kinds under which Lode stays in its version."""


def schedule(seed: int, seconds: float, workers: int = 3, among: Collection[Kind] = tuple(Kind)) -> Sequence[Fault]:
    """The faults of a run of so many seconds, in order: ten rounds at least, however short the run is.

    Args:
        seconds: they are spread evenly over this time.
        among: faults of other kinds are left out.
    """
    random = Random(f"faults/{seed}")
    kinds = [kind for _ in range(LEAST_TIMES) for kind in _round(random) if kind in among]
    gap = seconds / len(kinds)
    return tuple(_drawn(random, kind, place * gap, workers) for place, kind in enumerate(kinds))


def _round(random: Random) -> Sequence[Kind]:
    """Each kind once, of which others come in between: some before a restore that follows a change of the version."""
    others = [kind for kind in Kind if kind not in RESTORES | _CHANGES]
    random.shuffle(others)
    one, two, changes = random.choice((_BEFORE_THE_OLD, _DURING_THE_OLD))
    first, second = random.sample(sorted(RESTORES), 2)
    places = {first: one, second: two, **changes}
    order = sorted((random.choice(among), kind) for kind, among in places.items())
    for shift, (place, kind) in enumerate(order):
        others.insert(place + shift, kind)
    return others


def _drawn(random: Random, kind: Kind, at: float, workers: int) -> Fault:
    worker = random.randrange(workers) if kind in ON_NODES else 0
    match kind:
        case Kind.DISK:
            return Fault(at, kind, worker, random.uniform(*DISK_SECONDS))
        case Kind.RESTORE | Kind.RAISE:
            return Fault(at, kind, seconds=random.uniform(*SNAPSHOT_AGES))
        case Kind.SEVERAL:
            victims = random.sample(KILLS, random.randint(*_SEVERAL))
            return Fault(at, kind, kills=tuple(_victims(random, victims, workers)))
        case _:
            return Fault(at, kind, worker)


def _victims(random: Random, kinds: Sequence[Kind], workers: int) -> Iterator[tuple[Kind, int]]:
    for kind in kinds:
        yield kind, random.randrange(workers) if kind in ON_NODES else 0
