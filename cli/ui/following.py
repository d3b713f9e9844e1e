"""A fleet that is followed, a thread for each kind: reflectors tell of changes, any thread can read what is known.

A kind is followed as far as the rights of the user go.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from cli.fleetview import FleetView, ViewBuilder
from cli.fleetview.published import UNREADABLE, SliceReader, left_out
from cli.live import MissingRight
from cli.top import gangs
from cli.top.question import Question
from cli.ui.contents import FleetContents, KindGap, ShownNode, shown_claims, shown_pods
from controller.allocation import Fleet
from controller.state import DEVICE_TAINT_RULES_BETA, GANG_RESOURCES, State
from driver.clock import Clock, rfc3339
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    Object,
    Resource,
)
from driver.kube.decorator import ApiDecorator
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Missing, Reflector, Removed, Sink, Synced, Upserted
from driver.kube.reflector_loop import ReflectorLoop
from driver.names import Names
from driver.observe import logger
from driver.threads import start_thread

OF_STATE: Final = (RESOURCE_CLAIMS, PODS, *GANG_RESOURCES)
"""Kinds that are kept as the controller keeps them."""
FOLLOWED: Final = (RESOURCE_SLICES, NODES, DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA, *OF_STATE)


class FollowedFleet:
    """Keeps of each object what its document needs. Thread-safe."""

    def __init__(self, names: Names):
        self._names = names
        self._lock = threading.Lock()
        self._state = State(Fleet(names=names), names)
        slices = SliceReader(names)
        self._tables = {
            RESOURCE_SLICES: _Table(RESOURCE_SLICES, slices.read),
            NODES: _Table(NODES, _node),
            DEVICE_TAINT_RULES: _Table(DEVICE_TAINT_RULES, _itself),
            DEVICE_TAINT_RULES_BETA: _Table(DEVICE_TAINT_RULES_BETA, _itself),
        }
        self.revision = 0
        """Grows with each change."""

    def take(self, delta: Delta) -> None:
        """Take in a report of a reflector."""
        if delta.resource in OF_STATE:
            decoded = self._state.decode(delta)
            with self._lock:
                self._state.apply(decoded)
                self.revision += 1
        else:
            with self._lock:
                self._tables[delta.resource].take(delta)
                self.revision += 1

    def contents(self, missing: Sequence[KindGap] = (), problems: Sequence[KindGap] = ()) -> FleetContents:
        """Return everything that is known now."""
        with self._lock:
            view = self._view()
            found = gangs.report_on(self._state, view, Question(self._names))
            return FleetContents(
                view=view,
                nodes=dict(self._tables[NODES].values),
                claims=tuple(shown_claims(self._state)),
                pods=tuple(shown_pods(self._state)),
                gangs=found.items,
                missing=tuple(missing),
                problems=tuple(problems),
                notes=(*view.notes, *(f"{one}: left out" for one in self._state.unreadable.objects())),
            )

    def _view(self) -> FleetView:
        builder = ViewBuilder(self._names)
        builder.add_read(self._tables[RESOURCE_SLICES].values.values())
        for resource in (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA):
            builder.add_rules(self._tables[resource].values.values())
        builder.close_nodes(name for name, node in self._tables[NODES].values.items() if not node.open)
        for record in self._state.claims.values():
            builder.add_held(record.claim)
        for table in self._tables.values():
            for note in table.notes.values():
                builder.add_note(note)
        return builder.view()


class _Table:
    """What is kept of the objects of a kind."""

    def __init__(self, resource: Resource, read: Callable[[Object], Any]):
        self._resource = resource
        self._read = read
        self.values: dict[str, Any] = {}
        """By key; nothing of an object that does not count."""
        self.notes: dict[str, str] = {}
        """By key of an object that cannot be read."""

    def take(self, delta: Delta) -> None:
        match delta:
            case Upserted(_, raw):
                self._put(object_key(raw), raw)
            case Removed(_, raw):
                self._drop(object_key(raw))
            case Synced(_, keys):
                for key in (self.values.keys() | self.notes.keys()) - keys:
                    self._drop(key)
            case Missing():
                self.values.clear()
                self.notes.clear()

    def _put(self, key: str, raw: Object) -> None:
        self._drop(key)
        try:
            value = self._read(raw)
        except UNREADABLE as error:
            self.notes[key] = left_out(self._resource, raw, error)
            return
        if value is not None:
            self.values[key] = value

    def _drop(self, key: str) -> None:
        self.values.pop(key, None)
        self.notes.pop(key, None)


def _node(raw: Object) -> ShownNode:
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return ShownNode(ready, open=spec.get("unschedulable") is not True)


def _itself(raw: Object) -> Object:
    return raw


LISTED_SECONDS: Final = 60.0
"""Between two lists of a kind that may be listed and not watched."""
_NEEDED: Final = (RESOURCE_SLICES, RESOURCE_CLAIMS, PODS)
"""Kinds that every cluster serves; of the others there are none where they are not served."""
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
        return super().call(call._replace(namespace=self._namespace))


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
        return Reflector(
            _Within(self._api, self._within) if self._within else self._api,
            self.resource,
            self._take,
            optional=self.resource not in _NEEDED,
            now=self._clock.now,
        )


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
