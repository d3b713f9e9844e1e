"""Reads facts about the system and its cards from NVML."""

import ctypes
import uuid
from typing import Any

import pynvml

from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, ProfileFacts, SystemFacts
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.partitions import MULTIPROCESSORS

_MIB = 1024**2
_ENGINES = (
    (MULTIPROCESSORS, "multiprocessorCount"),
    ("copy-engines", "copyEngineCount"),
    ("decoders", "decoderCount"),
    ("encoders", "encoderCount"),
    ("jpeg-engines", "jpegCount"),
    ("ofa-engines", "ofaCount"),
)


def read_system(nvml: Nvml) -> SystemFacts:
    """The driver's versions.

    Raises:
        NvmlError: NVML cannot be loaded, or the driver is gone.
    """
    cuda = nvml.ask(None, "nvmlSystemGetCudaDriverVersion_v2")
    # 12080 is 12.8 (cuDriverGetVersion).
    version = f"{cuda // 1000}.{cuda % 1000 // 10}.0" if cuda else ""
    return SystemFacts(nvml.ask("", "nvmlSystemGetDriverVersion"), version)


def count(nvml: Nvml) -> int:
    """The number of cards; raises NvmlError."""
    number: int = nvml.call("nvmlDeviceGetCount")
    return number


def read_identity(nvml: Nvml, index: int) -> tuple[str, int | None]:
    """uuid and minor number of a card; raises NvmlError."""
    handle = nvml.call("nvmlDeviceGetHandleByIndex", index)
    return nvml.call("nvmlDeviceGetUUID", handle), nvml.ask(None, "nvmlDeviceGetMinorNumber", handle)


def read_gpu(nvml: Nvml, index: int) -> GpuFacts:
    """Read all facts of a card that do not change while the driver is loaded.

    Raises:
        NvmlError: the card is lost, or has no uuid.
    """
    handle = nvml.call("nvmlDeviceGetHandleByIndex", index)
    identity, minor = read_identity(nvml, index)
    memory = nvml.ask(None, "nvmlDeviceGetMemoryInfo", handle)
    pci = nvml.ask(None, "nvmlDeviceGetPciInfo", handle)
    capability = nvml.ask(None, "nvmlDeviceGetCudaComputeCapability", handle)
    return GpuFacts(
        index=index,
        uuid=identity,
        minor=minor,
        name=nvml.ask("", "nvmlDeviceGetName", handle),
        memory_mib=memory.total // _MIB if memory else None,
        architecture=nvml.ask(None, "nvmlDeviceGetArchitecture", handle),
        capability=tuple(capability) if capability else None,
        bus_id=_bus_id(pci) if pci else "",
        fabric=_fabric(nvml, handle),
        peers=_peers(nvml, handle),
        profiles=_profiles(nvml, handle),
    )


def _bus_id(pci: Any) -> str:
    # NVML writes the domain with eight digits, the kernel with four.
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _fabric(nvml: Nvml, handle: Any) -> str:
    info: Any = pynvml.c_nvmlGpuFabricInfo_v2_t()
    if nvml.ask(None, "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info)) is None:
        info = pynvml.c_nvmlGpuFabricInfo_t()
        if nvml.ask(None, "nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info)) is None:
            return ""
    cluster = uuid.UUID(bytes=bytes(info.clusterUuid))
    complete = info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and info.status == pynvml.NVML_SUCCESS
    # Cards of one node behind NVSwitch are in a fabric without a cluster.
    return f"{cluster}.{info.cliqueId}" if complete and cluster.int else ""


def _peers(nvml: Nvml, handle: Any) -> frozenset[str]:
    found = set()
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if nvml.ask(0, "nvmlDeviceGetNvLinkState", handle, link):
            peer = nvml.ask(None, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
            if peer is not None:
                found.add(_bus_id(peer))
    return frozenset(found)


def _profiles(nvml: Nvml, handle: Any) -> tuple[ProfileFacts, ...]:
    if nvml.ask(None, "nvmlDeviceGetMigMode", handle) is None:
        return ()
    found = (_profile(nvml, handle, index) for index in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT))
    return tuple(profile for profile in found if profile)


def _profile(nvml: Nvml, handle: Any, index: int) -> ProfileFacts | None:
    info = nvml.ask(None, "nvmlDeviceGetGpuInstanceProfileInfo", handle, index, 2)
    if info is None:
        info = nvml.ask(None, "nvmlDeviceGetGpuInstanceProfileInfo", handle, index, 1)
    if info is None:
        return None
    counts = ((name, getattr(info, field)) for name, field in _ENGINES)
    return ProfileFacts(
        index=index,
        id=info.id,
        name=getattr(info, "name", "").removeprefix("MIG "),
        slices=info.sliceCount,
        instances=info.instanceCount,
        memory_mib=info.memorySizeMB,
        engines=tuple((name, number) for name, number in counts if number),
        placements=_placements(nvml, handle, info.id),
    )


def _placements(nvml: Nvml, handle: Any, profile: int) -> tuple[tuple[int, int], ...]:
    number = ctypes.c_uint(0)
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    if nvml.ask(None, function, handle, profile, None, ctypes.byref(number)) is None or not number.value:
        return ()
    places = (pynvml.c_nvmlGpuInstancePlacement_t * number.value)()
    if nvml.ask(None, function, handle, profile, places, ctypes.byref(number)) is None:
        return ()
    return tuple((place.start, place.size) for place in places[: number.value])
