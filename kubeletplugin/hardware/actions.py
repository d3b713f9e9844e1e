"""What is done to the hardware of a node so that a claim can use it, as values. Pure.

An action says what is to exist, and nothing about whether it exists. Its ``key`` names it for good: the checkpoint
stores the action before it is carried out, and whoever reads the checkpoint after a crash finds by the key what may
have been created. Two actions with one key are about the same thing, so they must be equal to exist together.

Some actions are shared (``shared``): one per card, for every claim that needs it. They are undone with the last claim.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from driver.parameters import Interval

Handle = Mapping[str, str]
"""What a backend wants to remember of what it created, as text: uuids, instance ids. Kept in the checkpoint."""


@dataclass(frozen=True, slots=True)
class MigMode:
    """MIG mode of a card is on. Needed only of cards on which this program may turn it on and off."""

    kind: ClassVar[str] = "migmode"
    shared: ClassVar[bool] = True
    card: str
    """uuid of the card"""

    @property
    def key(self) -> str:
        """``migmode:<uuid>``"""
        return f"{self.kind}:{self.card}"


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance with one compute instance that has all of it."""

    kind: ClassVar[str] = "mig"
    shared: ClassVar[bool] = False
    card: str
    """uuid of the card"""
    profile: str
    """``1g.5gb``"""
    start: int
    """The first memory slice."""

    @property
    def key(self) -> str:
        """``mig:<uuid>:<profile>:<start>``"""
        return f"{self.kind}:{self.card}:{self.profile}:{self.start}"


@dataclass(frozen=True, slots=True)
class VnpuInstance:
    """A vNPU. Its id is chosen, and stored in the checkpoint, before it is created."""

    kind: ClassVar[str] = "vnpu"
    shared: ClassVar[bool] = False
    card: str
    """uuid of the chip (its VDIE)"""
    template: str
    """``vir02_1c``"""
    id: int

    @property
    def key(self) -> str:
        """``vnpu:<die>:<id>``"""
        return f"{self.kind}:{self.card}:{self.id}"


@dataclass(frozen=True, slots=True)
class MpsDaemon:
    """A control daemon of CUDA MPS that serves one card, and the card's compute mode that goes with it."""

    kind: ClassVar[str] = "mps"
    shared: ClassVar[bool] = True
    card: str
    """uuid of the card"""

    @property
    def key(self) -> str:
        """``mps:<uuid>``"""
        return f"{self.kind}:{self.card}"


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The time slice of a card, for all that runs on it."""

    kind: ClassVar[str] = "timeslice"
    shared: ClassVar[bool] = True
    card: str
    """uuid of the card"""
    interval: Interval

    @property
    def key(self) -> str:
        """``timeslice:<uuid>``"""
        return f"{self.kind}:{self.card}"


@dataclass(frozen=True, slots=True)
class HamiRegion:
    """The directory in which the processes of one claim account for the memory they use (HAMi-core)."""

    kind: ClassVar[str] = "hami"
    shared: ClassVar[bool] = False
    card: str
    """uuid of the first card of the claim: ``Hardware.observe`` reports the region with it."""
    claim: str
    """uid of the claim"""

    @property
    def key(self) -> str:
        """``hami:<claim>``"""
        return f"{self.kind}:{self.claim}"


Action = MigMode | MigInstance | VnpuInstance | MpsDaemon | TimeSlice | HamiRegion

_KINDS: Final[Mapping[str, type[Action]]] = {
    kind.kind: kind for kind in (MigMode, MigInstance, VnpuInstance, MpsDaemon, TimeSlice, HamiRegion)
}


def action_to(action: Action) -> dict[str, Any]:
    """The action in JSON, for the checkpoint."""
    return {"kind": action.kind, **asdict(action)}


def action_from(raw: Mapping[str, Any]) -> Action:
    """The action that ``action_to`` wrote.

    Raises:
        ValueError, KeyError, TypeError: it is something else.
    """
    fields = dict(raw)
    return _KINDS[fields.pop("kind")](**fields)
