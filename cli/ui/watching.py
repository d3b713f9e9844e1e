"""The threads that follow a fleet: one for each kind, and one that writes the document when something has changed."""

import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from cli.live import MissingRight
from cli.ui.contents import FleetContents, KindGap
from cli.ui.following import FOLLOWED, FollowedFleet
from controller.state import DEVICE_TAINT_RULES_BETA, GANG_RESOURCES
from driver.clock import Clock, rfc3339
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    Resource,
)
from driver.kube.reflector import PAGE_SIZE, Reflector
from driver.kube.reflector_loop import ReflectorLoop
from driver.names import Names
from driver.observe import logger
from driver.threads import start_thread

_NEEDED: Final = (RESOURCE_SLICES, RESOURCE_CLAIMS, PODS)
"""Kinds that every cluster serves; of the others there are none where they are not served."""
_PAGE_SIZES: Final = {RESOURCE_SLICES: 20}
"""A slice has up to 128 devices and some 100 kB of JSON."""
_RULES: Final = "cards that rules close look open"
_CONSEQUENCES: Final[Mapping[Resource, str]] = {
    RESOURCE_SLICES: "no card is known but those that claims hold",
    RESOURCE_CLAIMS: "cards that claims hold look free",
    PODS: "it is not known which pods wait, and why",
    NODES: "cards of nodes that take no pods look open",
    DEVICE_TAINT_RULES: _RULES,
    DEVICE_TAINT_RULES_BETA: _RULES,
    **dict.fromkeys(GANG_RESOURCES, "it is not known how many members some gangs have"),
}


class FleetWatch:
    """Follows a fleet until it is closed. No method waits for the API.

    Args:
        api: with the rights of the user; watches of several threads are open at once.
    """

    def __init__(self, api: Api, names: Names, clock: Clock):
        self._clock = clock
        self._fleet = FollowedFleet(names)
        self._closed = threading.Event()
        self._reflectors = [self._reflector(api, resource) for resource in FOLLOWED]
        log = logger("ui")
        for reflector in self._reflectors:
            loop = ReflectorLoop(reflector, clock, log)
            start_thread(f"watch {reflector.resource.plural}", partial(self._follow, loop), self._closed.set)

    @property
    def revision(self) -> object:
        """Differs after each change of what ``contents`` returns."""
        return self._fleet.revision, self._missing(), self._problems()

    @property
    def trouble(self) -> str:
        """Why there is nothing to show yet; "" if there is."""
        cards = next(one for one in self._reflectors if one.resource == RESOURCE_SLICES)
        if cards.error is not None and not cards.synced and cards.forbidden is None:
            return f"the API server gives no answer: {cards.error}"
        if all(one.synced or one.error is not None or one.forbidden is not None for one in self._reflectors):
            return ""
        return "the cluster is being read"

    def age(self) -> float:
        """Return the seconds since the API last told of what it tells nothing of now; 0 if it tells of everything."""
        failing = [one.heard for one in self._reflectors if one.error is not None and one.forbidden is None]
        return max(0.0, self._clock.now() - min(failing)) if failing else 0.0

    def contents(self) -> FleetContents:
        """Return everything that is known now."""
        return self._fleet.contents(self._missing(), self._problems())

    def close(self) -> None:
        """Let the threads end when their watch does. They keep no program from ending."""
        self._closed.set()

    def _reflector(self, api: Api, resource: Resource) -> Reflector:
        optional, size = resource not in _NEEDED, _PAGE_SIZES.get(resource, PAGE_SIZE)
        made = Reflector(api, resource, self._fleet.take, page_size=size, optional=optional)
        made.now, made.heard = self._clock.now, self._clock.now()
        return made

    def _follow(self, loop: ReflectorLoop) -> None:
        while not self._closed.is_set():
            self._closed.wait(loop.step())

    def _missing(self) -> tuple[KindGap, ...]:
        """The kinds that may not be read."""
        return tuple(dict.fromkeys(self._gaps_of_rights()))

    def _gaps_of_rights(self) -> Iterator[KindGap]:
        for one in self._reflectors:
            if one.forbidden is not None:
                right = MissingRight("watch" if one.position else "list", one.resource)
                yield KindGap(one.resource.plural, f"{right}: {_CONSEQUENCES[one.resource]}")

    def _problems(self) -> tuple[KindGap, ...]:
        """The kinds whose reading fails now."""
        return tuple(
            KindGap(one.resource.plural, str(one.error), rfc3339(one.heard))
            for one in self._reflectors
            if one.error is not None and one.forbidden is None
        )
