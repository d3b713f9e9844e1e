"""Carries decisions out: turns each into a sequence of writes, and has many sequences under way through one port.

threaded      the port of the running program, with many writes in flight
port          takes sequences and returns at once; results come back as events; and the order in which they start
execution     carries out one sequence, call by call
| sequences   turns a decision into a sequence of writes
steps         writes as values
"""

from controller.writing.execution import Terms
from controller.writing.port import Channel, Deliver, Writes, WritesOfTerm
from controller.writing.steps import Answer, Author, Lane, NotEvicted, Obstacle, Subject, WriteResult, WriteSequence
from controller.writing.threaded import ThreadedWrites, WritingMetrics

__all__ = [
    "Answer",
    "Author",
    "Channel",
    "Deliver",
    "Lane",
    "NotEvicted",
    "Obstacle",
    "Subject",
    "Terms",
    "ThreadedWrites",
    "WriteResult",
    "WriteSequence",
    "Writes",
    "WritesOfTerm",
    "WritingMetrics",
]
