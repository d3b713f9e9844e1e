"""Carries decisions out: turns each into a sequence of writes, and has many sequences under way through one port.

stepped       the port for a simulation: one call a step, in any order
| threaded    the port of the running program, with many writes in flight
port          takes sequences and returns at once; what came of them comes back as events
lanes         which sequence may start next
execution     one sequence on its way, call by call
calls         the API call of each step
| sequences   what a decision means as writes
metrics       metrics of writes
| steps       writes as values
| terms       the term of leadership that a write belongs to
"""

from controller.writing.metrics import WritingMetrics
from controller.writing.port import Channel, Deliver, Writes, WritesOfTerm
from controller.writing.stepped import Latency, SteppedWrites, UnderWay
from controller.writing.steps import Answer, Lane, Subject, WriteResult, WriteSequence
from controller.writing.terms import Terms
from controller.writing.threaded import ThreadedWrites

__all__ = [
    "Answer",
    "Channel",
    "Deliver",
    "Lane",
    "Latency",
    "SteppedWrites",
    "Subject",
    "Terms",
    "ThreadedWrites",
    "UnderWay",
    "WriteResult",
    "WriteSequence",
    "Writes",
    "WritesOfTerm",
    "WritingMetrics",
]
