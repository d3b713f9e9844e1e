"""Preparing claims on a node: a plan, a checkpoint, and the files that make containers see their devices."""

from kubeletplugin.prepare.claims import ClaimRef, Prepared, PreparedDevice, PrepareError
from kubeletplugin.prepare.preparer import Preparer

__all__ = ["ClaimRef", "PrepareError", "Prepared", "PreparedDevice", "Preparer"]
