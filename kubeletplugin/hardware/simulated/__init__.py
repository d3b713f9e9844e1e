"""Simulated cards, which can be partitioned and shared as real ones, and fail on demand.

``profile`` says which cards a node has, ``state`` what exists on them, and ``backend`` implements ``Hardware``.
``recording`` writes the profile of a node.
"""

from kubeletplugin.hardware.simulated.backend import SimulatedHardware
from kubeletplugin.hardware.simulated.profile import Profile, load_profile, profile_from, shipped_profiles
from kubeletplugin.hardware.simulated.recording import profile_of
from kubeletplugin.hardware.simulated.state import FileStore, MemoryStore

__all__ = [
    "FileStore",
    "MemoryStore",
    "Profile",
    "SimulatedHardware",
    "load_profile",
    "profile_from",
    "profile_of",
    "shipped_profiles",
]
