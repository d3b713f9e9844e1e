"""Prepares claims on a node: a plan, a checkpoint, actions on the hardware, and files for containers.

preparer         answers the kubelet, and recovers claims when the plugin starts
recovery         repairs the node when the plugin starts
| transaction    prepares one claim in six steps
retiring         gives up claims: files at once, steps on the hardware when possible
assessor         decides the steps of a claim, and which claims must go first
claim_metrics    which claims are prepared, as metrics
| claim_usage    whether prepared claims are still allocated and used, as the API says
| node_devices   the claim from the API, its devices from the hardware
| storage        the checkpoint and the claims' files on the disk
device_status    writes which cards claims have, where kube-scheduler allocates
| exclusion      claims that exclude each other: by devices, by how they share a card, by variables
card_identity    the cards that a prepared claim may be using
| container      the files of a claim, and the result for the kubelet
checkpoint       the checkpoint as bytes
cdi              CDI specs as values and as JSON
| metadata       files in which containers read about their devices
| uses           the use of the hardware by each device of a plan
plan             the devices of a claim on this node
claims           calls of the kubelet: references to claims, results, and errors
"""

from kubeletplugin.prepare.claim_metrics import NamedClaim
from kubeletplugin.prepare.claims import ClaimRef, PreparedDevice, PrepareError, PrepareResult
from kubeletplugin.prepare.device_status import DeviceStatusWriter
from kubeletplugin.prepare.preparer import Preparer
from kubeletplugin.prepare.retiring import Retiring

__all__ = [
    "ClaimRef",
    "DeviceStatusWriter",
    "NamedClaim",
    "PrepareError",
    "PrepareResult",
    "PreparedDevice",
    "Preparer",
    "Retiring",
]
