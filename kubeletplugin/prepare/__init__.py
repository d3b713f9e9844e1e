"""Preparing claims on a node: a plan, a checkpoint, and the files that give containers their devices.

``preparer`` runs the transaction. ``plan`` says what a claim holds on this node, ``conflicts`` whether another claim
holds it too, ``container`` what containers get for it; ``checkpoint`` and ``storage`` keep it on disk. ``recovery``
repairs the node when the plugin starts.
"""

from kubeletplugin.prepare.claims import ClaimRef, PreparedDevice, PrepareError, PrepareResult
from kubeletplugin.prepare.preparer import Preparer

__all__ = ["ClaimRef", "PrepareError", "PrepareResult", "PreparedDevice", "Preparer"]
