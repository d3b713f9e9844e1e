"""Reads, creates and destroys GPU instances and compute instances, and MIG mode, one call of NVML after another."""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pynvml

from kubeletplugin.hardware.answer import LACKS
from kubeletplugin.hardware.nvidia.nvml.facts import ProfileFacts
from kubeletplugin.hardware.nvidia.nvml.library import NO_SUCH, Nvml, NvmlCode, NvmlError

_MOST_INSTANCES = 16


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance that exists."""

    id: int
    profile: int
    """The id of its profile on this card (``ProfileFacts.id``)."""
    start: int
    size: int
    """Its memory slices are ``start`` to ``start + size``, the last one excluded."""

    def overlaps(self, start: int, size: int) -> bool:
        """Whether it has one of these memory slices."""
        return start < self.start + self.size and self.start < start + size


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """A compute instance that exists."""

    id: int
    slices: int
    uuid: str
    """Uuid of the MIG device that applications see."""


class MigCard:
    """One card, for the time of one call. Every method may raise NvmlError.

    Args:
        uuid: of the card.
    """

    def __init__(self, nvml: Nvml, uuid: str):
        self._nvml = nvml
        self._handle = nvml.device(uuid)

    def mode(self) -> bool | None:
        """Whether MIG mode is on; None if the card has none."""
        modes = self._nvml.need("nvmlDeviceGetMigMode", self._handle)
        return None if modes is LACKS else modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE

    def set_mode(self, on: bool) -> None:
        """Turn MIG mode on or off; nothing stays pending if that cannot be done at once.

        Raises:
            NvmlError: with the code that says why it was not activated.
        """
        wanted = pynvml.NVML_DEVICE_MIG_ENABLE if on else pynvml.NVML_DEVICE_MIG_DISABLE
        status = self._nvml.call("nvmlDeviceSetMigMode", self._handle, wanted)
        if status != pynvml.NVML_SUCCESS:
            self._nvml.call("nvmlDeviceSetMigMode", self._handle, 1 - wanted)
            raise NvmlError("nvmlDeviceSetMigMode", status, "MIG mode was not changed")

    def gpu_instances(self, profiles: Iterable[ProfileFacts]) -> tuple[GpuInstance, ...]:
        """All GPU instances of these profiles; none while MIG mode is off."""
        found = []
        for profile in profiles:
            for handle in self._listed(
                "nvmlDeviceGetGpuInstances", self._handle, profile.id, pynvml.c_nvmlGpuInstance_t
            ):
                info = self._nvml.call("nvmlGpuInstanceGetInfo", handle)
                found.append(GpuInstance(info.id, info.profileId, info.placement.start, info.placement.size))
        return tuple(sorted(found, key=lambda instance: instance.start))

    def compute_instances(self, gpu_instance: int) -> tuple[ComputeInstance, ...]:
        """All compute instances of a GPU instance."""
        parent, found = self._gpu_instance(gpu_instance), []
        for profile, slices in self._compute_profiles(parent):
            function = "nvmlGpuInstanceGetComputeInstances"
            for handle in self._listed(function, parent, profile, pynvml.c_nvmlComputeInstance_t):
                info = self._nvml.call("nvmlComputeInstanceGetInfo", handle)
                uuid = self._nvml.call("nvmlDeviceGetUUID", info.device)
                found.append(ComputeInstance(info.id, slices, uuid))
        return tuple(found)

    def create_gpu_instance(self, profile: int, start: int, size: int) -> int:
        """Create a GPU instance and return its id."""
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        function = "nvmlDeviceCreateGpuInstanceWithPlacement"
        handle = self._nvml.call(function, self._handle, profile, ctypes.byref(place))
        number: int = self._nvml.call("nvmlGpuInstanceGetInfo", handle).id
        return number

    def create_compute_instance(self, gpu_instance: int, slices: int) -> None:
        """Create the compute instance that has all compute slices of a GPU instance."""
        parent = self._gpu_instance(gpu_instance)
        for profile, size in self._compute_profiles(parent):
            if size == slices:
                self._nvml.call("nvmlGpuInstanceCreateComputeInstance", parent, profile)
                return
        raise NvmlError(
            "nvmlGpuInstanceGetComputeInstanceProfileInfo",
            NvmlCode.NOT_SUPPORTED,
            f"no profile of {slices} compute slices",
        )

    def destroy_compute_instance(self, gpu_instance: int, number: int) -> None:
        """Destroy a compute instance; absent is success."""
        handle = self._nvml.call("nvmlGpuInstanceGetComputeInstanceById", self._gpu_instance(gpu_instance), number)
        self._nvml.call("nvmlComputeInstanceDestroy", handle)

    def destroy_gpu_instance(self, number: int) -> None:
        """Destroy a GPU instance without compute instances."""
        self._nvml.call("nvmlGpuInstanceDestroy", self._gpu_instance(number))

    def _gpu_instance(self, number: int) -> Any:
        return self._nvml.call("nvmlDeviceGetGpuInstanceById", self._handle, number)

    def _compute_profiles(self, parent: Any) -> list[tuple[int, int]]:
        """Id and number of compute slices of each profile that a GPU instance can have."""
        found = []
        for index in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            function, engines = (
                "nvmlGpuInstanceGetComputeInstanceProfileInfo",
                pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
            )
            # The first version of the structure has all that is needed, and every driver has it.
            info = self._nvml.need(function, parent, index, engines, 1, lacking=NO_SUCH)
            if info is not LACKS:
                found.append((info.id, info.sliceCount))
        return found

    def _listed(self, function: str, parent: Any, profile: int, kind: Any) -> list[Any]:
        handles, number = (kind * _MOST_INSTANCES)(), ctypes.c_uint(_MOST_INSTANCES)
        try:
            self._nvml.call(function, parent, profile, handles, ctypes.byref(number))
        except NvmlError as error:
            if error.code == NvmlCode.NOT_SUPPORTED:
                return []
            raise
        return list(handles[: number.value])
