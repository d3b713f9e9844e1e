"""Reads facts about the system and its cards from NVML."""

import ctypes
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pynvml

from kubeletplugin.hardware.answer import LACKS, Answer, Unread, then
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, ProfileFacts, SystemFacts
from kubeletplugin.hardware.nvidia.nvml.library import NO_SUCH, Nvml
from kubeletplugin.hardware.partitions import MULTIPROCESSORS

_MIB = 1024**2
_FABRIC_BEGINS = (pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED, pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS)
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
    cuda = nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
    # 12080 is 12.8 (cuDriverGetVersion).
    version = then(cuda, lambda number: f"{number // 1000}.{number % 1000 // 10}.0")
    return SystemFacts(nvml.ask("nvmlSystemGetDriverVersion"), version)


def count(nvml: Nvml) -> int:
    """The number of cards; raises NvmlError."""
    number: int = nvml.call("nvmlDeviceGetCount")
    return number


def read_identity(nvml: Nvml, index: int) -> tuple[str, Answer[int]]:
    """uuid and minor number of a card; raises NvmlError."""
    handle = nvml.call("nvmlDeviceGetHandleByIndex", index)
    return nvml.call("nvmlDeviceGetUUID", handle), nvml.ask("nvmlDeviceGetMinorNumber", handle)


def is_divided(nvml: Nvml, index: int) -> Answer[bool]:
    """Whether MIG mode is on; raises NvmlError."""
    modes = nvml.ask("nvmlDeviceGetMigMode", nvml.call("nvmlDeviceGetHandleByIndex", index))
    return then(modes, lambda pair: bool(pair[0] == pynvml.NVML_DEVICE_MIG_ENABLE))


def read_gpu(nvml: Nvml, index: int, uuid: str, minor: int | None) -> GpuFacts:
    """Read all facts of a card that do not change while the driver is loaded.

    Args:
        uuid, minor: what identifies the card (``read_identity``).

    Raises:
        NvmlError: the card is lost.
    """
    handle = nvml.call("nvmlDeviceGetHandleByIndex", index)
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    pci = nvml.ask("nvmlDeviceGetPciInfo", handle)
    capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", handle)
    return GpuFacts(
        index=index,
        uuid=uuid,
        minor=minor,
        name=nvml.ask("nvmlDeviceGetName", handle),
        memory_mib=then(memory, lambda info: int(info.total // _MIB)),
        architecture=nvml.ask("nvmlDeviceGetArchitecture", handle),
        capability=then(capability, lambda number: (int(number[0]), int(number[1]))),
        bus_id=then(pci, _bus_id),
        fabric=_fabric(nvml, handle),
        links=_links(nvml, handle),
        profiles=_profiles(nvml, handle),
    )


def _bus_id(pci: Any) -> str:
    # NVML writes the domain with eight digits, the kernel with four.
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _fabric(nvml: Nvml, handle: Any) -> Answer[str]:
    info: Any = pynvml.c_nvmlGpuFabricInfo_v2_t()
    answer = nvml.ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    if answer is LACKS:
        info = pynvml.c_nvmlGpuFabricInfo_t()
        answer = nvml.ask("nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info))
    if answer is LACKS or isinstance(answer, Unread):
        return answer
    if info.state in _FABRIC_BEGINS:
        return Unread("nvmlDeviceGetGpuFabricInfo: the card has not joined its fabric yet")
    cluster = uuid.UUID(bytes=bytes(info.clusterUuid))
    complete = info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and info.status == pynvml.NVML_SUCCESS
    # Cards of one node behind NVSwitch are in a fabric without a cluster.
    return f"{cluster}.{info.cliqueId}" if complete and cluster.int else ""


def _links(nvml: Nvml, handle: Any) -> Answer[Mapping[str, int]]:
    found: Counter[str] = Counter()
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = nvml.ask("nvmlDeviceGetNvLinkState", handle, link, lacking=NO_SUCH)
        if isinstance(state, Unread):
            return state
        if state is LACKS or not state:
            continue
        peer = nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, lacking=NO_SUCH)
        if isinstance(peer, Unread):
            return peer
        if peer is not LACKS:
            found[_bus_id(peer)] += 1
    return dict(found)


def _profiles(nvml: Nvml, handle: Any) -> Answer[tuple[ProfileFacts, ...]]:
    mode = nvml.ask("nvmlDeviceGetMigMode", handle)
    if mode is LACKS or isinstance(mode, Unread):
        return mode
    found: list[ProfileFacts] = []
    for index in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        profile = _profile(nvml, handle, index)
        if isinstance(profile, Unread):
            return profile
        if profile is not LACKS:
            found.append(profile)
    return tuple(found)


def _profile(nvml: Nvml, handle: Any, index: int) -> Answer[ProfileFacts]:
    info = nvml.ask("nvmlDeviceGetGpuInstanceProfileInfo", handle, index, 2, lacking=NO_SUCH)
    if info is LACKS:
        info = nvml.ask("nvmlDeviceGetGpuInstanceProfileInfo", handle, index, 1, lacking=NO_SUCH)
    if info is LACKS or isinstance(info, Unread):
        return info
    places = _placements(nvml, handle, info.id)
    if isinstance(places, Unread):
        return places
    counts = ((name, getattr(info, field)) for name, field in _ENGINES)
    return ProfileFacts(
        index=index,
        id=info.id,
        name=getattr(info, "name", "").removeprefix("MIG "),
        slices=info.sliceCount,
        instances=info.instanceCount,
        memory_mib=info.memorySizeMB,
        engines=tuple((name, number) for name, number in counts if number),
        placements=() if places is LACKS else places,
    )


def _placements(nvml: Nvml, handle: Any, profile: int) -> Answer[tuple[tuple[int, int], ...]]:
    number = ctypes.c_uint(0)
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    answer = nvml.ask(function, handle, profile, None, ctypes.byref(number))
    if answer is LACKS or isinstance(answer, Unread):
        return answer
    places = (pynvml.c_nvmlGpuInstancePlacement_t * number.value)()
    answer = nvml.ask(function, handle, profile, places, ctypes.byref(number)) if number.value else None
    if answer is LACKS or isinstance(answer, Unread):
        return answer
    return tuple((place.start, place.size) for place in places[: number.value])
