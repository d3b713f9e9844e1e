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
class _OnCard:
    """An object on a card, or about it."""

    kind: ClassVar[str]
    shared: ClassVar[bool] = False
    named_by: ClassVar[tuple[str, ...]] = ("card",)
    """The fields that name the object."""
    card: str
    """uuid of the card; of the first one if the object is for several. ``observe`` of that card reports the object."""

    @property
    def key(self) -> str:
        """The kind and the fields that name the object: ``mig:<uuid>:<profile>:<start>``."""
        return ":".join([self.kind, *(str(getattr(self, name)) for name in self.named_by)])


@dataclass(frozen=True, slots=True)
class MigMode(_OnCard):
    """MIG mode is on. Only for cards on which this program may turn it on and off."""

    kind: ClassVar[str] = "migmode"
    shared: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class MigInstance(_OnCard):
    """A GPU instance with one compute instance that has all of it."""

    kind: ClassVar[str] = "mig"
    named_by: ClassVar[tuple[str, ...]] = ("card", "profile", "start")
    profile: str
    """``1g.5gb``"""
    start: int
    """The first memory slice."""


@dataclass(frozen=True, slots=True)
class VnpuInstance(_OnCard):
    """A vNPU. Its id is chosen, and stored in the checkpoint, before it is created."""

    kind: ClassVar[str] = "vnpu"
    named_by: ClassVar[tuple[str, ...]] = ("card", "id")
    template: str
    """``vir02_1c``"""
    id: int


@dataclass(frozen=True, slots=True)
class MpsDaemon(_OnCard):
    """A control daemon of CUDA MPS that serves one card, and the card's compute mode that goes with it."""

    kind: ClassVar[str] = "mps"
    shared: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class TimeSlice(_OnCard):
    """The time slice of a card, for all processes on it."""

    kind: ClassVar[str] = "timeslice"
    shared: ClassVar[bool] = True
    interval: Interval


@dataclass(frozen=True, slots=True)
class HamiRegion(_OnCard):
    """The directory in which the processes of one claim account for their memory (HAMi-core)."""

    kind: ClassVar[str] = "hami"
    named_by: ClassVar[tuple[str, ...]] = ("claim",)
    claim: str
    """uid of the claim"""


@dataclass(frozen=True, slots=True)
class PluginAllocation(_OnCard):
    """The answer of a device plugin to the allocation of a claim's devices of one resource. The IDs are chosen, and
    stored in the checkpoint, before the device plugin is asked."""

    kind: ClassVar[str] = "deviceplugin"
    variables: ClassVar[str] = "variables"
    """The entry of a handle that has the names of the variables that containers get."""
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
