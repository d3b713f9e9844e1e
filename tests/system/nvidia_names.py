"""Claims that were written for NVIDIA's DRA driver, in a history whose programs offer its names."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from driver.kube.api import Object
from tests.system.objects import ROOT, alternatives, request

HISTORIES: Final = 0.1
"""In how many histories its names are offered."""
NVIDIA_CLASSES: Final[Sequence[Object]] = tuple(
    yaml.safe_load_all((ROOT / "manifests/nvidia-dra-names/classes.yaml").read_text())
)
_MINOR: Final = "device.attributes['gpu.nvidia.com'].index == 0"
_LARGE: Final = "device.capacity['gpu.nvidia.com'].multiprocessors.isGreaterThan(quantity('14'))"
NVIDIA_REQUESTS: Final[Mapping[str, Object]] = {
    "nvidia-card": request("gpu.nvidia.com"),
    "nvidia-share": request("gpu.nvidia.com", memory="3Gi"),
    "nvidia-shares": request("gpu.nvidia.com", count=2, memory="6Gi", cores="30"),
    "nvidia-share-of-first": request("gpu.nvidia.com", selector=_MINOR, memory="1Gi"),
    "nvidia-share-or-card": alternatives(
        request("gpu.nvidia.com", memory="3Gi"), request("gpu.nvidia.com"), request("mig.nvidia.com")
    ),
    "nvidia-partition": request("mig.nvidia.com", selector=_LARGE),
}


def has_nvidia_names(seed: int) -> bool:
    """Whether the names are offered in the history of ``seed``; all other histories stay the same."""
    return random.Random(f"NVIDIA's names are offered in {seed}").random() < HISTORIES
