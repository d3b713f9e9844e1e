"""One kind of a fleet, followed as far as the rights of the user go."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from cli.live import MissingRight
from cli.ui.contents import KindGap
from controller.state import DEVICE_TAINT_RULES_BETA, GANG_RESOURCES
from driver.clock import Clock, rfc3339
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    Resource,
)
from driver.kube.decorator import ApiDecorator
from driver.kube.reflector import PAGE_SIZE, Reflector, Sink
from driver.kube.reflector_loop import ReflectorLoop
from driver.observe import logger

LISTED_SECONDS: Final = 60.0
"""Between two lists of a kind that may be listed and not watched."""
_NEEDED: Final = (RESOURCE_SLICES, RESOURCE_CLAIMS, PODS)
"""Kinds that every cluster serves; of the others there are none where they are not served."""
_PAGE_SIZES: Final = {RESOURCE_SLICES: 20}
"""A slice has up to 128 devices and some 100 kB of JSON."""
_RULES: Final = "cards that rules close look open"
CONSEQUENCES: Final[Mapping[Resource, str]] = {
    RESOURCE_SLICES: "no card is known but those that claims hold",
    RESOURCE_CLAIMS: "cards that claims hold look free",
    PODS: "it is not known which pods wait, and why",
    NODES: "cards of nodes that take no pods look open",
    DEVICE_TAINT_RULES: _RULES,
    DEVICE_TAINT_RULES_BETA: _RULES,
    **dict.fromkeys(GANG_RESOURCES, "it is not known how many members some gangs have"),
}
"""What follows for the picture where a kind cannot be listed."""


class _Within(ApiDecorator):
    """The objects of one namespace."""

    def __init__(self, api: Api, namespace: str):
        super().__init__(api)
        self._namespace = namespace

    def call(self, call: ApiCall) -> Any:
        """See ``Api``."""
        return super().call(replace(call, namespace=self._namespace))


class FollowedKind:
    """Lists and watches one kind, step by step.

    In the whole cluster; where that is not allowed, in one namespace; where it may not be watched, by lists.

    Args:
        take: gets the reports.
        namespace: of the user; "" if none is known.
    """

    def __init__(self, api: Api, resource: Resource, take: Sink, clock: Clock, namespace: str):
        self.resource = resource
        self._api = api
        self._take = take
        self._clock = clock
        self._namespace = namespace if resource.namespaced else ""
        self._within = ""
        """The namespace that is followed; "" for all."""
        self._only_listed = False
        self._reflector = self._made()
        self._reflector.heard = clock.now()
        self._loop = ReflectorLoop(self._reflector, clock, logger("ui"))

    @property
    def synced(self) -> bool:
        """Whether it was listed once, or is known not to be served."""
        return self._reflector.synced

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to wait for: the kind was listed, may not be listed, or cannot be read."""
        return self.synced or self._refused is not None or self._reflector.error is not None

    @property
    def problem(self) -> KindGap | None:
        """Why its objects may be out of date; None if they are not, or only rights are missing."""
        error = self._reflector.forbidden or self._reflector.error
        if error is None or error is self._refused:
            return None
        return KindGap(self.resource.plural, str(error), rfc3339(self._reflector.heard))

    @property
    def heard(self) -> float:
        """When the API last told of it, in seconds since the epoch."""
        return self._reflector.heard

    def gaps(self) -> Iterator[KindGap]:
        """Yield the rights that are missing, with what follows."""
        plural, follows = self.resource.plural, CONSEQUENCES[self.resource]
        if self._refused is not None and not self._only_listed:
            yield KindGap(plural, f"{MissingRight('list', self.resource)}: {follows}")
        elif self._within:
            shown = f"only those of namespace {self._within} are known, and of the others {follows}"
            yield KindGap(plural, f"{MissingRight('list', self.resource)}: {shown}")
        if self._only_listed:
            right = MissingRight("watch", self.resource, self._within)
            yield KindGap(plural, f"{right}: they are read again every {LISTED_SECONDS:g} seconds")

    def step(self) -> float:
        """List, or watch until the API ends that; returns the seconds to wait before the next step."""
        watched = self._reflector.position
        pause = self._loop.step()
        if self._refused is None:
            return pause
        if watched:
            self._only_listed = True
            self._restart()
            return LISTED_SECONDS
        if self._namespace and not self._within:
            self._within = self._namespace
            self._restart()
            return 0.0
        return pause

    @property
    def _refused(self) -> Exception | None:
        """The error that names a missing right; None if there is none. A user without any identity is a problem."""
        refused = self._reflector.forbidden
        return refused if refused is not None and refused.status == 403 else None

    def _restart(self) -> None:
        before, self._reflector = self._reflector, self._made()
        self._reflector.synced, self._reflector.heard = before.synced, before.heard
        self._loop = ReflectorLoop(self._reflector, self._clock, logger("ui"))

    def _made(self) -> Reflector:
        made = Reflector(
            _Within(self._api, self._within) if self._within else self._api,
            self.resource,
            self._take,
            page_size=_PAGE_SIZES.get(self.resource, PAGE_SIZE),
            optional=self.resource not in _NEEDED,
        )
        made.now = self._clock.now
        return made
