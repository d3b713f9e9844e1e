"""Actions on the hardware that make a device usable for a claim, as values. Pure.

An action names an object that must exist, such as a MIG instance. Its ``key`` never changes: the checkpoint stores the
action before it is carried out, and after a crash the key finds the object. Two actions with the same key are about the
same object, so they can both be carried out only if they are equal.

A shared action (``shared``) exists once for each card, for all claims that need it. It is undone with the last claim.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from driver.parameters import Interval

Handle = Mapping[str, str]
"""Ids of a created object, as the backend needs them later: uuids, instance ids. The checkpoint keeps them."""


@dataclass(frozen=True, slots=True)
class MigMode:
    """MIG mode is on. Only for cards on which this program may turn it on and off."""

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
    """The time slice of a card, for all processes on it."""

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
    """The directory in which the processes of one claim account for their memory (HAMi-core)."""

    kind: ClassVar[str] = "hami"
    shared: ClassVar[bool] = False
    card: str
    """uuid of the first card of the claim; ``observe`` of that card reports the region"""
    claim: str
    """uid of the claim"""

    @property
    def key(self) -> str:
        """``hami:<claim>``"""
        return f"{self.kind}:{self.claim}"


@dataclass(frozen=True, slots=True)
class PluginAllocation:
    """The answer of a device plugin to the allocation of a claim's devices of one resource. The IDs are chosen, and
    stored in the checkpoint, before the device plugin is asked."""

    kind: ClassVar[str] = "deviceplugin"
    shared: ClassVar[bool] = False
    variables: ClassVar[str] = "variables"
    """The entry of a handle that has the names of the variables that containers get."""
    card: str
    """uuid of the first card; ``observe`` of that card reports the answer"""
    claim: str
    """uid of the claim"""
    resource: str
    """``amd.com/gpu``"""
    ids: tuple[str, ...]
    """The device plugin's names of the devices, or of their replicas."""

    @property
    def key(self) -> str:
        """``deviceplugin:["<claim>", "<resource>", "<id>", ...]``"""
        return f"{self.kind}:{json.dumps([self.claim, self.resource, *self.ids])}"

    @staticmethod
    def ids_in(key: str, resource: str) -> tuple[str, ...]:
        """The IDs of the resource in a key; () if it is that of another resource or of another kind of action."""
        kind, _, rest = key.partition(":")
        if kind != PluginAllocation.kind:
            return ()
        _, of, *ids = json.loads(rest)
        return tuple(ids) if of == resource else ()


Action = MigMode | MigInstance | VnpuInstance | MpsDaemon | TimeSlice | HamiRegion | PluginAllocation

_KINDS: Final[Mapping[str, type[Action]]] = {
    kind.kind: kind for kind in (MigMode, MigInstance, VnpuInstance, MpsDaemon, TimeSlice, HamiRegion, PluginAllocation)
}


def action_to(action: Action) -> dict[str, Any]:
    """The action in JSON, for the checkpoint."""
    return {"kind": action.kind, **asdict(action)}


def action_from(raw: Mapping[str, Any]) -> Action:
    """The action that ``action_to`` wrote.

    Raises:
        ValueError, KeyError, TypeError: ``action_to`` did not write this.
    """
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    return _KINDS[fields.pop("kind")](**fields)
