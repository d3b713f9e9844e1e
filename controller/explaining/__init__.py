"""Explains why no node takes a pod: asks each node, groups what they say, and renders it. Pure.

To ask every node may cost more than all decisions that are due, so it is done in turns, once for all pods of a shape.

explainer  asks each node why it refuses a pod, in turns, and remembers what they say by shape of pod
messages   nodes grouped by their reasons, and the closest miss, for JSON and as the text of a condition and an Event
"""

from controller.explaining.explainer import AskedNodes, MessageFinder, Questions, ask_all
from controller.explaining.messages import (
    IN_VAIN,
    Message,
    message_of,
    rests_on_memory,
    summary_of,
    with_member,
)

__all__ = [
    "IN_VAIN",
    "AskedNodes",
    "Message",
    "MessageFinder",
    "Questions",
    "ask_all",
    "message_of",
    "rests_on_memory",
    "summary_of",
    "with_member",
]
