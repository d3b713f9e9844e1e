"""Preparing claims on a node: a plan, a checkpoint, and the files that give containers their devices.

``preparer`` answers the kubelet, ``transaction`` carries a prepare out, and ``retiring`` undoes it. ``plan`` says what
a claim holds on this node, ``uses`` what it makes of the hardware, ``conflicts`` and ``exclusions`` whether another
claim is in the way, ``container`` what containers get for it; ``checkpoint`` and ``storage`` keep it on disk.
``recovery`` repairs the node when the plugin starts.
"""

from kubeletplugin.prepare.claims import ClaimRef, PreparedDevice, PrepareError, PrepareResult
from kubeletplugin.prepare.preparer import Preparer
from kubeletplugin.prepare.retiring import Retiring

__all__ = ["ClaimRef", "PrepareError", "PrepareResult", "PreparedDevice", "Preparer", "Retiring"]
