"""One of several controllers of a world, each with its own election, driven by hand."""

from collections.abc import Callable
from typing import TypeVar

from controller.election import Election, LeaseTerms
from controller.loop import Controller, Ports
from controller.writing import Channel
from driver.kube.api import NAMESPACES, ApiCall, Resource, Unavailable
from driver.kube.decorator import ApiDecorator
from driver.observe import Metrics, logger
from tests.simulation.stepped_writes import SteppedWrites
from tests.unit.controller.loop.world import ControllerWorld

T = TypeVar("T")
LEASE_SECONDS = 15
LONGEST_WRITE_SECONDS = 10
"""As in the default settings."""


class Network(ApiDecorator):
    """The API as one replica reaches it."""

    def __init__(self, world: ControllerWorld):
        super().__init__(world.api)
        self.listed: list[Resource] = []
        self.late: list[Callable[[], object]] = []
        """Writes that were sent and have not arrived."""
        self.loses: Callable[[ApiCall], bool] = lambda call: False
        """Which writes get no answer, and arrive when the test carries them out."""

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        if call.verb == "list":
            self.listed.append(call.resource)
        if call.is_write and self.loses(call):
            self.late.append(proceed)
            raise Unavailable("no answer in time")
        return proceed()


class Replica:
    """One controller."""

    def __init__(self, world: ControllerWorld, name: str):
        self.world = world
        self.network = Network(world)
        terms = LeaseTerms("lode-system", "lode-controller", LEASE_SECONDS, LONGEST_WRITE_SECONDS)
        self.election = Election(world.api, world.clock, terms, name)
        self.writes = SteppedWrites(
            Channel(self.network, self.election, lambda result: self.controller.handle(result), world.clock)
        )
        self.controller = Controller(
            Ports(self.network, self.writes, world.clock, Metrics(), logger(name)), world.settings, name
        )
        self._term: int | None = None

    def elect(self, seconds: float) -> None:
        """Take part in the election for a while."""
        for _ in range(int(seconds / self.election.interval)):
            self.world.clock.advance(self.election.interval)
            self.election.step()

    def observe(self) -> None:
        """Let the reflectors catch up."""
        for reflector in self.controller.reflectors:
            reflector.step()

    def follow_election(self) -> None:
        """Tell the controller about a term that has begun or ended."""
        term = self.election.term
        if term != self._term:
            self._term = term
            if term is None:
                self.controller.follow()
            else:
                self.controller.lead(term)

    def work(self, *, watching: bool = True) -> None:
        """Work until nothing is due now."""
        for _ in range(500):
            self.follow_election()
            if watching:
                self.observe()
            if not (self.controller.step() or self.writes.step()):
                return
        raise AssertionError("the controller never comes to rest")

    def work_on(self, seconds: float) -> None:
        """Take part in the election and work for a while."""
        for _ in range(int(seconds / self.election.interval)):
            self.elect(self.election.interval)
            self.work()


def world_of_two(**options: int) -> tuple[ControllerWorld, Replica, Replica]:
    """A world with two replicas, ``old`` and ``new``."""
    world = ControllerWorld(**options)
    world.api.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
    return world, Replica(world, "old"), Replica(world, "new")
