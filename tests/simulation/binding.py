"""How kube-scheduler binds pods: a call that a user's API does not have, and that fails as others do."""

import random

from driver.kube.api import PODS, Unavailable
from memoryapi import MemoryApi
from tests.simulation.event_log import EventLog
from tests.simulation.process import Process
from tests.simulation.program_slots import ProgramSlots


class Binding:
    """The binding of one process; its answer may be lost."""

    def __init__(self, process: Process, api: MemoryApi, slots: ProgramSlots, log: EventLog, randomness: random.Random):
        self._process = process
        self._api = api
        self._slots = slots
        self._log = log
        self._random = randomness

    def bind(self, namespace: str, name: str, node: str) -> object:
        """Bind a pod.

        Raises:
            ApiError: it is not bound, or the answer is lost.
        """
        self._process.call()
        if self._slots.api_is_down:
            raise Unavailable("bind: connection refused")
        self._log.count_write(PODS)
        self._log.note(self._process.name, f"bind {namespace}/{name} to {node}")
        bound = self._api.bind(namespace, name, node)
        if self._random.random() < self._slots.faults.network.lost_response:
            raise Unavailable("bind: connection lost")
        return bound
