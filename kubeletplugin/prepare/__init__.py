"""Preparing claims on a node: a plan, a checkpoint, and the files that give containers their devices.

preparer         answers the kubelet, and a plugin that starts
recovery         repairs the node when the plugin starts
| transaction    prepares one claim in six steps
retiring         forgets claims: their files at once, their hardware as soon as it allows that
assessor         what a claim needs: steps on the hardware, and that other claims go first
claim_usage      whether prepared claims are still allocated and used, by the API
| node_devices   the claim from the API, its devices from the hardware
| storage        the checkpoint and the claims' files on the disk
card_identity    which cards a prepared claim may be using
| container      what containers get for a claim
| exclusions     what cannot be on a card at the same time
checkpoint       the checkpoint as bytes
cdi              CDI specs as values and as JSON
| conflicts      which claims hold devices that exclude each other
| metadata       what a container can read about its devices
| uses           what a plan makes of the hardware, device by device
plan             what a claim holds on this node
calls            one call of the kubelet, and why it may fail
claims           how the kubelet names claims, and the results that it gets
"""

from kubeletplugin.prepare.claims import ClaimRef, PreparedDevice, PrepareError, PrepareResult
from kubeletplugin.prepare.preparer import Preparer
from kubeletplugin.prepare.retiring import Retiring

__all__ = ["ClaimRef", "PrepareError", "PrepareResult", "PreparedDevice", "Preparer", "Retiring"]
