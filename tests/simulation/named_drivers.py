"""Drivers of others that the operator names: when the policies name them, and who acts on that."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controller.policies import PolicyGuard, expected_policies
from driver.clock import Clock
from driver.kube.api import RESOURCE_CLAIMS, Api, ApiCall, NotFound, Object, Unavailable, WatchEvent
from driver.kube.decorator import ApiDecorator, WriteDecorator
from driver.names import Names
from driver.observe import Logger, Metrics

T = TypeVar("T")


@dataclass
class DriverPolicies:
    """The admission policies, before and after the operator names other drivers in them.

    Attributes:
        names: with the drivers that are named in the end.
        stored: whether the policies name them.
        acting_at: from when API servers act on that (monotonic seconds).
        catches: whether the next allocation that kube-scheduler writes is kept on its way.
        on_its_way: that write, and what carries it out; None before, and when it has arrived.
        unseen_until: until then, no watch of claims tells controllers anything (monotonic seconds).
    """

    names: Names
    clock: Clock
    stored: bool = False
    acting_at: float = 0.0
    catches: bool = False
    on_its_way: tuple[ApiCall, Callable[[], object]] | None = None
    unseen_until: float = 0.0

    def store(self, lag: float) -> None:
        """The operator names the drivers; API servers act on it a moment (seconds) later."""
        self.stored, self.acting_at = True, self.clock.monotonic() + lag

    def allocates(self, driver: str) -> bool:
        """Whether API servers let only our controller allocate devices of the driver now."""
        acts = self.stored and self.clock.monotonic() >= self.acting_at
        return self.names.allocates(driver) if acts else driver == self.names.driver

    def guard(self, also: Collection[str], log: Logger) -> "SteppedGuard":
        """What looks at the policies for a controller whose settings name the drivers ``also``."""
        return SteppedGuard(self, tuple(also), log)


class SlowAllocations(WriteDecorator):
    """The API as kube-scheduler has it: the answer to an allocation may not come in time, and it is made later.

    Until then no other allocation is written: kube-scheduler gives nobody the devices of one that is in flight.
    """

    def __init__(self, api: Api, policies: DriverPolicies):
        super().__init__(api)
        self._policies = policies

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """See ``ApiDecorator``."""
        allocates = call.resource == RESOURCE_CLAIMS and call.subresource == "status" and call.verb == "update"
        if not allocates or not call.body["status"].get("allocation"):
            return proceed()
        if self._policies.catches:
            self._policies.catches, self._policies.on_its_way = False, (call, lambda: self._arrive(proceed))
            raise Unavailable(f"{call}: timed out")
        if self._policies.on_its_way is not None:
            raise Unavailable(f"{call}: waits for {self._policies.on_its_way[0]}")
        return proceed()

    def _arrive(self, proceed: Callable[[], T]) -> T:
        self._policies.on_its_way = None
        return proceed()


class SilentClaims(ApiDecorator):
    """The API as controllers have it: their watches of claims may lag behind."""

    def __init__(self, api: Api, policies: DriverPolicies):
        super().__init__(api)
        self._policies = policies

    def around_watch(self, call: ApiCall, proceed: Callable[[], Iterator[WatchEvent]]) -> Iterator[WatchEvent]:
        """See ``ApiDecorator``."""
        silent = call.resource == RESOURCE_CLAIMS and self._policies.clock.monotonic() < self._policies.unseen_until
        return iter(()) if silent else proceed()


class _StoredPolicies(Api):
    """The policies as the API has them."""

    def __init__(self, policies: DriverPolicies):
        self._policies = policies
        of = policies.names
        self._both = [_by_name(expected_policies(of.driver, also=also)) for also in ((), of.also_allocates)]

    def call(self, call: ApiCall) -> Any:
        """See ``Api``."""
        found = self._both[self._policies.stored].get((call.resource.kind, call.name))
        if call.verb != "get" or found is None:
            raise NotFound("no such policy", status=404)
        return {**found, "metadata": {**found["metadata"], "uid": call.name, "resourceVersion": "1"}}


def _by_name(policies: Sequence[Object]) -> dict[tuple[str, str], Object]:
    return {(one["kind"], one["metadata"]["name"]): one for one in policies}


class SteppedGuard:
    """A controller's look at the policies, whenever that is due."""

    def __init__(self, policies: DriverPolicies, also: tuple[str, ...], log: Logger):
        expected = expected_policies(policies.names.driver, also=also)
        self._guard = PolicyGuard(_StoredPolicies(policies), expected, Metrics(), log, from_others=bool(also))
        self._clock = policies.clock
        self.due = self._clock.monotonic()
        """When it looks next (monotonic seconds)."""

    @property
    def problem(self) -> str:
        """Why nothing may be allocated."""
        return self._guard.problem

    def step(self) -> None:
        """Look, if that is due."""
        if self.due <= self._clock.monotonic():
            self.due = self._clock.monotonic() + self._guard.step()
