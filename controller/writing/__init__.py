"""From a decision to the API: what a decision means as a sequence of writes, and the port that carries sequences out.

sequences        what a decision means as writes (pure)
steps            writes as values (pure)
port.Writes      takes sequences and returns at once; what came of them comes back as events
threaded         the port of the running program, with many writes in flight
stepped          the port for a simulation, which makes one call a step, in any order
lanes            which sequence may start next; calls: the API call of each step
"""

from controller.writing.metrics import WritingMetrics
from controller.writing.port import Deliver, Writes, WritesOfTerm
from controller.writing.stepped import Latency, SteppedWrites, UnderWay
from controller.writing.steps import Answer, Lane, Subject, WriteResult, WriteSequence
from controller.writing.terms import Terms
from controller.writing.threaded import ThreadedWrites

__all__ = [
    "Answer",
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
