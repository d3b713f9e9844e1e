"""What the loop of the controller runs is a list of workers. This is their protocol, and what all of them use.

worker             the protocol, and the objects that all workers of a term share
writes_in_flight   the decisions that are being written
| metrics          the controller's metrics
queue              keys with due times, in which a pod stands for its gang; and when a write that failed is made again
"""

from controller.worker.queue import AFTER_FAILURE_SECONDS, KeyedQueue, RetryTimes
from controller.worker.worker import Shared, Worker

__all__ = ["AFTER_FAILURE_SECONDS", "KeyedQueue", "RetryTimes", "Shared", "Worker"]
