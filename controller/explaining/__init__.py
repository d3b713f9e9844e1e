"""Explains why no node takes a pod: asks each node, groups what they say, and renders it. Pure.

To ask every node may cost more than all decisions that are due, so it is done in turns, once for all pods of a shape.

explanations  the last explanation of each shape of pods, found in turns
messages      the reasons of all nodes as the text of a condition and an Event, and for JSON
questions     asks each node why it refuses a pod
| summary     nodes grouped by their reasons, and the closest miss, as values and as text
"""

from controller.explaining.explanations import Explanations
from controller.explaining.messages import (
    IN_VAIN,
    Explanation,
    explanation_of,
    rests_on_memory,
    summary_of,
    with_member,
)
from controller.explaining.questions import Questions, ask_all

__all__ = [
    "IN_VAIN",
    "Explanation",
    "Explanations",
    "Questions",
    "ask_all",
    "explanation_of",
    "rests_on_memory",
    "summary_of",
    "with_member",
]
