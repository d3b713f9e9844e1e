"""Finds, creates and destroys MIG instances."""

from collections.abc import Iterable, Mapping, Sequence

from kubeletplugin.hardware.actions import Handle, MigInstance, MigMode
from kubeletplugin.hardware.answer import LACKS, if_read, read
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, ProfileFacts
from kubeletplugin.hardware.nvidia.nvml.instances import ComputeInstance, GpuInstance, MigCard
from kubeletplugin.hardware.nvidia.nvml.library import Nvml, NvmlCode, NvmlError
from kubeletplugin.hardware.nvidia.schemes import name_of, placements_of, whole_of
from kubeletplugin.hardware.port import FoundObject, InUse, NoRoom, Unsupported

_SWITCHES_IN_PLACE = 9
"""Cards of this compute capability (Hopper) and newer change their MIG mode without a reset."""


def switches_in_place(gpu: GpuFacts) -> bool:
    """Whether MIG mode can be turned on and off without a reset. Older cards need one.

    Raises:
        TransientFault: the card has not said what it is.
    """
    capability = read(gpu.capability)
    return capability is not LACKS and capability[0] >= _SWITCHES_IN_PLACE


class MigPartitions:
    """The MIG mode and instances of one card, for the time of one call.

    Methods may raise NvmlError, or TransientFault while the facts of the card are not known that they depend on.
    """

    def __init__(self, nvml: Nvml, gpu: GpuFacts):
        self._gpu = gpu
        self._card = MigCard(nvml, gpu.uuid)

    def mode(self) -> bool | None:
        """Whether MIG mode is on; None if the card has none."""
        return self._card.mode()

    def found(self) -> tuple[FoundObject, ...]:
        """MIG mode if it is on, and every GPU instance; an instance without a compute instance is not complete."""
        if not self._card.mode():
            return ()
        return (FoundObject(MigMode(self._gpu.uuid)), *(self._found(instance) for instance in self._instances()))

    def ensure_mode(self) -> Handle:
        """Turn MIG mode on.

        Raises:
            Unsupported: the card needs a reset for it.
            NoRoom: processes use the card.
        """
        mode = self._card.mode()
        if mode is None or (not mode and not switches_in_place(self._gpu)):
            raise Unsupported(mode_needs_reset(self._gpu) if mode is not None else f"card {self._gpu.uuid} has no MIG")
        if not mode:
            try:
                self._card.set_mode(True)
            except NvmlError as error:
                if error.code == NvmlCode.RESET_REQUIRED:
                    raise Unsupported(mode_needs_reset(self._gpu)) from error
                if error.code == NvmlCode.IN_USE:
                    raise NoRoom(
                        f"card {self._gpu.uuid}: processes use it; MIG mode is turned on when they end"
                    ) from error
                raise
        return {}

    def release_mode(self) -> None:
        """Turn MIG mode off, unless foreign instances need it.

        Raises:
            InUse: processes use the card.
        """
        if not self._card.mode() or not switches_in_place(self._gpu) or self._instances():
            return
        try:
            self._card.set_mode(False)
        except NvmlError as error:
            if error.code == NvmlCode.IN_USE:
                raise InUse(f"card {self._gpu.uuid}: processes use it, so MIG mode stays on") from error
            raise

    def ensure(self, action: MigInstance) -> Handle:
        """Create the instance, or complete it.

        Raises:
            Unsupported: the card has no such profile or placement or refuses it, or MIG mode is off.
            NoRoom: another instance is in its place.
        """
        profile, size = self._profile(action)
        if not self._card.mode():
            raise Unsupported(f"card {self._gpu.uuid}: MIG mode is off")
        instances = self._instances()
        present = next((i for i in instances if (i.profile, i.start) == (profile.id, action.start)), None)
        if present:
            return self._completed(present.id, profile)
        others = [instance for instance in instances if instance.overlaps(action.start, size)]
        if others:
            raise NoRoom(f"{action.key}: its place is taken by {self._described(others)}")
        try:
            number = self._card.create_gpu_instance(profile.id, action.start, size)
        except NvmlError as error:
            if error.code == NvmlCode.INSUFFICIENT_RESOURCES:
                raise NoRoom(f"{action.key}: no room beside {self._described(instances)}") from error
            self._explain(action, error)
            raise
        try:
            return self._completed(number, profile)
        except NvmlError as error:
            self._card.destroy_gpu_instance(number)
            self._explain(action, error)
            raise

    def _explain(self, action: MigInstance, error: NvmlError) -> None:
        """Raise Unsupported where the driver refuses what it was asked for: it will, however often it is asked."""
        if error.code == NvmlCode.INVALID_ARGUMENT:
            raise Unsupported(
                f"{action.key}: the driver refuses this profile at this memory slice: {error}; delete the pod, and "
                f"compare nvidia-smi mig -i {self._gpu.uuid} -lgipp with the partitions that the node offers"
            ) from error

    def release(self, action: MigInstance, handle: Handle | None) -> None:
        """Destroy the instance. Success if it does not exist, also if another one is in its place.

        Raises:
            InUse: processes use it.
        """
        if not self._card.mode() or action.profile not in self._named:
            return
        profile = self._named[action.profile]
        for instance in self._instances():
            if (instance.profile, instance.start) == (profile.id, action.start):
                computes = self._card.compute_instances(instance.id)
                if handle is None or _is_same(handle, instance, computes):
                    self._destroy(action, instance, computes)

    def handle_of(self, profile: str, start: int) -> Handle | None:
        """The handle of a complete instance at a placement; None if there is none."""
        for each in self.found():
            action = each.action
            if isinstance(action, MigInstance) and (action.profile, action.start) == (profile, start) and each.complete:
                return each.handle
        return None

    def _instances(self) -> tuple[GpuInstance, ...]:
        return self._card.gpu_instances(self._named.values())

    @property
    def _named(self) -> Mapping[str, ProfileFacts]:
        """The profiles by name; none of a card without MIG."""
        profiles = read(self._gpu.partitioning)
        return {} if profiles is LACKS else _by_name(profiles, if_read(self._gpu.memory_mib))

    @property
    def _names(self) -> Mapping[int, str]:
        """The names of profiles by their ids."""
        return {profile.id: name for name, profile in self._named.items()}

    def _found(self, instance: GpuInstance) -> FoundObject:
        action = MigInstance(self._gpu.uuid, self._names[instance.profile], instance.start)
        computes = self._card.compute_instances(instance.id)
        return (
            FoundObject(action, _handle(instance.id, computes[0]), True) if computes else FoundObject(action, {}, False)
        )

    def _completed(self, number: int, profile: ProfileFacts) -> Handle:
        computes = self._card.compute_instances(number)
        if not computes:
            self._card.create_compute_instance(number, profile.slices)
            computes = self._card.compute_instances(number)
        if computes[0].slices != profile.slices:
            raise NoRoom(
                f"card {self._gpu.uuid}: compute instances of somebody else divide GPU instance {number}; destroy them "
                "with nvidia-smi mig -dci"
            )
        return _handle(number, computes[0])

    def _destroy(self, action: MigInstance, instance: GpuInstance, computes: tuple[ComputeInstance, ...]) -> None:
        try:
            for compute in computes:
                self._card.destroy_compute_instance(instance.id, compute.id)
            self._card.destroy_gpu_instance(instance.id)
        except NvmlError as error:
            if error.code == NvmlCode.IN_USE:
                raise InUse(f"{action.key}: processes use it") from error
            raise

    def _profile(self, action: MigInstance) -> tuple[ProfileFacts, int]:
        profile = self._named.get(action.profile)
        places = dict(placements_of(profile, self._gpu)) if profile else {}
        if profile is None or action.start not in places:
            offered = ", ".join(self._named) or "none"
            raise Unsupported(
                f"card {self._gpu.uuid} has no profile {action.profile} at memory slice {action.start}; its profiles "
                f"are {offered}"
            )
        return profile, places[action.start]

    def _described(self, instances: Iterable[GpuInstance]) -> str:
        names = [f"{self._names[each.profile]} at memory slice {each.start}" for each in instances]
        return f"the GPU instances {', '.join(names)}"


def mode_needs_reset(gpu: GpuFacts) -> str:
    """The reason why a card with MIG mode off cannot have partitions, and the remedy."""
    return (
        f"card {gpu.uuid} needs a reset to turn MIG mode on; drain the node, run nvidia-smi -i {gpu.uuid} -mig 1, and "
        "reset the card or reboot"
    )


def placements_unknown(gpu: GpuFacts) -> str:
    """The reason why a card with MIG mode off cannot have partitions, and the remedy."""
    return (
        f"the driver says the placements of MIG instances of card {gpu.uuid} only in MIG mode; drain the card, and "
        f"turn the mode on with nvidia-smi -i {gpu.uuid} -mig 1"
    )


def _by_name(profiles: Sequence[ProfileFacts], memory_mib: int | None) -> Mapping[str, ProfileFacts]:
    if not profiles:
        return {}
    memory = memory_mib or whole_of(profiles).memory_mib
    return {name_of(profile, memory): profile for profile in profiles}


def _handle(gpu_instance: int, compute: ComputeInstance) -> Handle:
    return {"gpuInstance": str(gpu_instance), "computeInstance": str(compute.id), "uuid": compute.uuid}


def _is_same(handle: Handle, instance: GpuInstance, computes: tuple[ComputeInstance, ...]) -> bool:
    """Whether the handle is of this instance. Its compute instance may be gone after an interrupted release."""
    if not computes:
        return handle.get("gpuInstance") == str(instance.id)
    return any(handle == _handle(instance.id, compute) for compute in computes)
