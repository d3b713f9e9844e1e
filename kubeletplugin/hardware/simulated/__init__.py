"""Simulated cards, which can be partitioned and shared as real ones, and fail on demand.

backend       answers the port
| recording   writes the profile of a node
profile       which cards a node has, from a YAML file
| state       what exists on the cards
schemes       partition schemes that a profile may name
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
