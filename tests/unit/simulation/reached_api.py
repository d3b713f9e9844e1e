"""The API in memory as a controller of a simulation reaches it."""

from memoryapi import MemoryApi
from tests.simulation.access import Access, AccessApi
from tests.simulation.clock import VirtualClock
from tests.simulation.event_log import EventLog
from tests.simulation.hostile import HostileApi, HostileObjects


class ReachedApi:
    """What is stored, hostile objects beside it, and kinds and rights that can be taken away."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.log = EventLog(clock)
        self.memory = MemoryApi(clock)
        self.hostile = HostileObjects(self.memory, self.log)
        self.access = Access(self.log)
        self.api = AccessApi(HostileApi(self.memory, self.hostile), self.access, "controller")
