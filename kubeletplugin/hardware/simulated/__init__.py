"""Simulated cards, which can be partitioned, shared and made to fail.

backend       implements the ports
| recording   writes the profile of a node
profile       the cards of a node, from a YAML file
| state       partitions, modes and daemons that exist on the cards
schemes       partition schemes that a profile may name
| bridged     devices of vendors' device plugins in a profile
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
