"""The change that helps pods which wait, by what they wait for."""

from typing import Final

from controller.reconcile import Reason
from controller.waiting import Help

HELPS: Final = {
    Reason.AMBIGUOUS_CLASS: Help.CLUSTER,
    Reason.INVALID_CLAIM: Help.CLUSTER,
    Reason.INVALID_PARAMETERS: Help.CLUSTER,
    Reason.MIXED_CLAIM: Help.CLUSTER,
    Reason.UNKNOWN_CLASS: Help.CLUSTER,
    Reason.NODE_UNUSABLE: Help.NODES,
    Reason.QUOTA_EXCEEDED: Help.QUOTA,
    Reason.QUOTA_INVALID: Help.QUOTA,
    Reason.REFUSED: Help.NODES,
}
"""The change that helps pods which wait for these reasons; for all others, a change of the pod or of its claims."""
