"""The threads that follow a fleet, one for each kind, and what is known of it meanwhile."""

import threading
from functools import partial

from cli.ui.contents import FleetContents, KindGap
from cli.ui.following import FOLLOWED, FollowedFleet
from cli.ui.kinds import FollowedKind
from driver.clock import Clock
from driver.kube.api import RESOURCE_SLICES, Api
from driver.names import Names
from driver.threads import start_thread


class FleetWatch:
    """Follows a fleet. Only the threads wait for the API.

    Args:
        api: with the rights of the user; watches of several threads are open at once.
        namespace: followed where the whole cluster may not be; "" if there is none.

    Attributes:
        fleet: what is known.
        kinds: what is followed; ``start`` has a thread step each of them.
    """

    def __init__(self, api: Api, names: Names, clock: Clock, namespace: str = ""):
        self._clock = clock
        self.fleet = FollowedFleet(names)
        self._closed = threading.Event()
        self.kinds = [FollowedKind(api, resource, self.fleet.take, clock, namespace) for resource in FOLLOWED]

    def start(self) -> None:
        """Follow from now on, until ``close``."""
        for kind in self.kinds:
            start_thread(f"watch {kind.resource.plural}", partial(self._follow, kind), self._closed.set)

    def close(self) -> None:
        """Let the threads end when their watch does. They keep no program from ending."""
        self._closed.set()

    @property
    def revision(self) -> object:
        """Differs after each change of what ``contents`` returns."""
        return self.fleet.revision, self._gaps(), self._problems()

    @property
    def trouble(self) -> str:
        """Why there is nothing to show yet; "" if there is."""
        cards = next(kind for kind in self.kinds if kind.resource == RESOURCE_SLICES)
        if not cards.synced and cards.problem is not None:
            return f"the API server gives no usable answer: {cards.problem.message}"
        return "" if all(kind.is_settled for kind in self.kinds) else "the cluster is being read"

    def age(self) -> float:
        """Return the seconds since the kind that has failed for longest was up to date; 0 if none fails."""
        failing = [kind.heard for kind in self.kinds if kind.problem is not None]
        return max(0.0, self._clock.now() - min(failing)) if failing else 0.0

    def contents(self) -> FleetContents:
        """Return everything that is known now."""
        return self.fleet.contents(self._gaps(), self._problems())

    def _follow(self, kind: FollowedKind) -> None:
        while not self._closed.is_set():
            self._closed.wait(kind.step())

    def _gaps(self) -> tuple[KindGap, ...]:
        """The rights that are missing; of kinds with the same name and consequence, one."""
        return tuple(dict.fromkeys(gap for kind in self.kinds for gap in kind.gaps()))

    def _problems(self) -> tuple[KindGap, ...]:
        """The kinds whose reading fails now."""
        return tuple(kind.problem for kind in self.kinds if kind.problem is not None)
