"""What the device plugins of a node have reported: their devices, and which of them work.

A device plugin registers a resource, and then sends its whole list with each change. It may die, come back with another
socket, and forget which cards had failed. All of that is remembered here, also for the next program of the same boot.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, Literal

from driver.clock import Clock
from driver.deviceplugins import DevicePluginSettings, ResourceSettings
from driver.limits import MAX_HEALTH_MESSAGE, listed
from driver.observe import Logger, Metrics
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of, fits_pattern
from kubeletplugin.hardware.deviceplugin.metrics import BridgeMetrics
from kubeletplugin.hardware.deviceplugin.remembered import (
    MOST_ID,
    MOST_IDS,
    Known,
    KnownResource,
    after_list,
    without,
)
from kubeletplugin.hardware.deviceplugin.reported import Reported, ReportedCard, card_reports
from kubeletplugin.hardware.port import Health

MOST_RESOURCES: Final = 64
GRACE_SECONDS: Final = 30.0
"""How long after the start of this program a device plugin may take to register again, before its devices count as
failed."""
SAVE_SECONDS: Final = 1.0
"""Between two times that what is known is written for lists; and between two for registrations of one resource, or for
losses of it."""
Cause = tuple[Literal["registration", "loss", "lists"], str]
"""Why what is known has changed, and the resource; "" for lists of any."""
KEPT_SECONDS: Final = 300.0
"""How long a device stays published that is not reported any more, or whose device plugin is not connected, if no claim
has it; as long as the kubelet keeps a resource."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration of a resource. A device plugin that registers again has another one."""

    resource: str
    endpoint: str
    """File name of its socket."""
    number: int
    pre_start: bool = False
    """Whether it wants to be told before containers start."""


@dataclass(slots=True)
class _Resource:
    known: KnownResource = field(default_factory=KnownResource)
    registration: Registration | None = None
    """The one whose list counts; None while no device plugin is connected."""
    begun_at: float | None = None
    """When its device plugin registered last; None if it has not since the start."""
    listed_at: float = 0.0
    """When its device plugin sent its last list since the start."""
    failed_in: dict[str, int] = field(default_factory=dict)
    """The number of the registration that reported an ID as unhealthy; missing for those of earlier programs."""
    refusal: str = ""
    """Why its devices cannot be used, as its first answer showed."""
    reports: Mapping[str, ReportedCard] | None = None
    """The cards of the list and of what is gone, by their IDs; None if they have to be found again."""
    cards: tuple[Mapping[str, str], tuple[Card, ...]] | None = None
    """The cards, and the labels of the node that they were made with."""


class Registry:
    """The registrations and lists of a node's device plugins. Thread-safe.

    Args:
        record: keeps what is known for the next program.
        node: the facts of the node now.

    Attributes:
        metrics: of the device plugins.
    """

    def __init__(
        self,
        settings: DevicePluginSettings,
        record: BootFile[Known],
        node: Callable[[], LabelledNode],
        clock: Clock,
        log: Logger,
        metrics: BridgeMetrics | None = None,
    ):
        self.metrics = metrics or BridgeMetrics(Metrics())
        self._settings = settings
        self._record = record
        self._node = node
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._started = clock.monotonic()
        self._numbers = 0
        self._frozen = False
        self._resources = {name: _Resource(known) for name, known in (record.load() or {}).items()}
        self._held: Counter[str] = Counter()
        """IDs that claims have, by resource."""
        self._spared: Collection[tuple[str, str]] = {
            (name, each)
            for name, one in self._resources.items()
            for each in (*one.known.gone, *(device.id for device in one.known.devices))
        }
        """IDs that claims have, with their resources; before these are known, all that could be such."""
        self._written: dict[Cause, float] = {}
        """When what is known was last written, by what had changed."""
        for name in self._resources:
            self._follow(name)

    @property
    def endpoints(self) -> frozenset[str]:
        """The file names of the sockets of all device plugins that have registered since the boot."""
        with self._lock:
            return frozenset(one.known.endpoint for one in self._resources.values() if one.known.endpoint)

    def settings_of(self, resource: str) -> ResourceSettings:
        """The settings of a resource."""
        return self._settings.resources.get(resource) or ResourceSettings()

    def is_ignored(self, resource: str) -> bool:
        """Whether the settings exclude the resource."""
        return any(fnmatchcase(resource, pattern) for pattern in self._settings.ignore)

    def has_room(self, resource: str) -> bool:
        """Whether another resource can be served."""
        with self._lock:
            return resource in self._resources or len(self._resources) < MOST_RESOURCES

    def begin(self, resource: str, endpoint: str) -> Registration:
        """Note that a device plugin registers. Its socket is on record before it has the answer.

        Waits for at most ``SAVE_SECONDS`` if another one of the resource, at another socket, did a moment ago.
        """
        with self._lock:
            self._numbers += 1
            if resource not in self._resources:
                self._resources[resource] = _Resource()
                self._follow(resource)
            one = self._resources[resource]
            is_known, one.known = one.known.endpoint == endpoint, replace(one.known, endpoint=endpoint)
            one.begun_at = self._clock.monotonic()
            number = self._numbers
            if not is_known:
                self._choose()
        if self._record.unsaved:
            self._save_after_pause(("registration", resource))
        return Registration(resource, endpoint, number)

    def listed(self, registration: Registration, devices: Iterable[Reported]) -> Registration | None:
        """Take over a list; returns the registration that this one replaces, None if there is none.

        A list of a registration that a newer one has replaced is ignored.
        """
        readable = tuple(self._readable(registration.resource, devices))
        with self._lock:
            one = self._resources[registration.resource]
            before = one.registration
            if before is not None and before.number > registration.number:
                return None
            now = self._clock.monotonic()
            one.registration, one.listed_at = registration, now
            if before is None or before.number != registration.number:
                one.refusal = ""

            own = {name for name, number in one.failed_in.items() if number == registration.number}
            remember = self._settings.remember_seconds
            held = {each for resource, each in self._spared if resource == registration.resource}
            known = after_list(one.known, readable, now, own=own, remember=remember, held=held)
            known = replace(known, lost=None)
            one.failed_in = {name: number for name, number in one.failed_in.items() if name in known.failed}
            one.failed_in |= {device.id: registration.number for device in readable if not device.healthy}
            if known != one.known:
                one.known, one.reports, one.cards = known, None, None
                self._choose()
        self.metrics.follow_list(
            registration.resource,
            age=lambda: self._clock.monotonic() - one.listed_at,
            count=partial(self._count, registration.resource),
        )
        self._save_in_time()
        if before is None or before.number == registration.number:
            return None
        return before

    def lost(self, registration: Registration) -> bool:
        """Note that the connection of a registration is lost; whether that was the one that counts.

        May wait as ``begin`` does.
        """
        with self._lock:
            one = self._resources[registration.resource]
            if one.registration is None or one.registration.number != registration.number or self._frozen:
                return False
            one.registration = None
            one.known = replace(one.known, lost=self._clock.monotonic())
            self._choose()
        self._save_after_pause(("loss", registration.resource))
        return True

    def refuse(self, resource: str, reason: str) -> None:
        """Note why the devices of a resource cannot be used, until its device plugin registers again."""
        with self._lock:
            self._resources[resource].refusal = reason

    def freeze(self, *, frozen: bool) -> None:
        """Keep everything as it is while another program serves the device plugins of this node; after that, they have
        the time of a start to register here."""
        with self._lock:
            if self._frozen and not frozen:
                self._started = self._clock.monotonic()
                for one in self._resources.values():
                    one.registration = one.begun_at = None
                    one.known = replace(one.known, lost=None)
            self._frozen = frozen

    def current(self, resource: str) -> Registration | None:
        """The registration to ask; None while no device plugin is connected."""
        with self._lock:
            one = self._resources.get(resource)
            return one.registration if one else None

    def lost_since(self) -> Mapping[str, tuple[str, float]]:
        """The resources whose device plugin is not connected, each with its endpoint and for how many seconds."""
        now = self._clock.monotonic()
        with self._lock:
            return {
                name: (one.known.endpoint, now - self._lost_at(one))
                for name, one in self._resources.items()
                if one.registration is None
            }

    def reported(self, resource: str, ids: Collection[str]) -> Mapping[str, Reported]:
        """Those of these IDs that are in the last list."""
        with self._lock:
            one = self._resources.get(resource)
            devices = one.known.devices if one else ()
        return {device.id: device for device in devices if device.id in ids}

    def save(self) -> None:
        """Write what is known for the next program, unless it is written."""
        self._record.save()

    def hold(self, held: Collection[tuple[str, str]]) -> None:
        """Note the IDs that claims have, with their resources; they stay published."""
        with self._lock:
            self._held, self._spared = Counter(resource for resource, _ in held), held

    def cards(self) -> tuple[Card, ...]:
        """The cards of all resources, those included that are gone and that stay published."""
        node = self._node()
        self._save_in_time()
        with self._lock:
            self._forget(self._spared)
            found: list[Card] = []
            for name, one in self._resources.items():
                if self.is_ignored(name):
                    continue
                if one.cards is None or one.cards[0] != node.labels:
                    settings = self.settings_of(name)
                    reports = self._reports(name, one)
                    one.cards = (
                        dict(node.labels),
                        tuple(card_of(name, each, settings, node) for each in reports.values()),
                    )
                found += one.cards[1]
        return tuple(sorted(found, key=lambda card: card.order))

    def present(self, resource: str, device_id: str) -> bool:
        """Whether the last list has the card."""
        with self._lock:
            one = self._resources.get(resource)
            if one is None or self.is_ignored(resource):
                return False
            report = self._reports(resource, one).get(device_id)
            return report is not None and not _is_gone(report, one)

    def health(self) -> Mapping[tuple[str, str], Health]:
        """Health of each card, by resource and ID."""
        now = self._clock.monotonic()
        with self._lock:
            return {
                (name, each.device_id): self._health(name, one, each, now)
                for name, one in self._resources.items()
                if not self.is_ignored(name)
                for each in self._reports(name, one).values()
            }

    def _follow(self, name: str) -> None:
        self.metrics.follow(
            name, connected=lambda: self.current(name) is not None, held=lambda: self._held.get(name, 0)
        )

    def _count(self, name: str, healthy: bool) -> int:
        """The number of devices of a resource that are healthy, or of those that are not."""
        now = self._clock.monotonic()
        with self._lock:
            one = self._resources[name]
            found = [self._health(name, one, each, now) for each in self._reports(name, one).values()]
        return sum(each.healthy == healthy for each in found)

    def _health(self, name: str, one: _Resource, report: ReportedCard, now: float) -> Health:
        if one.refusal:
            return Health("fatal", one.refusal)
        if _is_gone(report, one):
            return Health("fatal", f"the device plugin of {name} does not report it any more")
        if one.registration is None and not self._frozen:
            began = one.known.lost is None and now - self._lost_at(one) < GRACE_SECONDS
            if not began:
                message = f"the device plugin of {name} is not connected; if its pod runs on this node, delete it"
                return Health("fatal", message, away=True)
        if report.unhealthy:
            return Health("fatal", f"its device plugin reports it as unhealthy: {_texts(report.unhealthy)}")
        remember, at = self._settings.remember_seconds, one.known.failed
        if failed := [each for each in report.ids if each in at and now - at[each] < remember]:
            message = f"its device plugin reported it as unhealthy before it started anew: {_texts(failed)}"
            return Health("fatal", message)
        return Health()

    def _reports(self, name: str, one: _Resource) -> Mapping[str, ReportedCard]:
        if one.reports is None:
            settings, known = self.settings_of(name), one.known
            present = {each.device_id: each for each in card_reports(known.devices, settings.replicas)}
            gone = card_reports([Reported(each) for each in known.gone], settings.replicas)
            one.reports = {each.device_id: each for each in gone} | present
            if present and not any(fits_pattern(each, settings) for each in present):
                self._log.warning("no ID fits the pattern of the resource", resource=name, pattern=settings.id_pattern)
        return one.reports

    def _forget(self, held: Collection[tuple[str, str]]) -> None:
        now = self._clock.monotonic()
        for name, one in self._resources.items():
            old = {each for each, at in one.known.gone.items() if now - at >= KEPT_SECONDS}
            if one.registration is None and now - self._lost_at(one) >= KEPT_SECONDS:
                old |= {each.id for each in one.known.devices}
            old -= {each for resource, each in held if resource == name}
            if old and not self._frozen:
                one.known = without(one.known, old)
                one.reports = one.cards = None
                self._choose()

    def _save_in_time(self) -> None:
        """Write what lists say, but not twice in a moment: the next list or question for the cards writes the rest."""
        if self._record.unsaved and not self._frozen and self._pause(("lists", "")) == 0:
            self._save_after_pause(("lists", ""))

    def _save_after_pause(self, cause: Cause) -> None:
        if (pause := self._pause(cause)) > 0:
            self._clock.sleep(pause)
        self._written[cause] = self._clock.monotonic()
        self.save()

    def _pause(self, cause: Cause) -> float:
        """The seconds until there may be another write for this reason."""
        return max(0.0, self._written.get(cause, -math.inf) + SAVE_SECONDS - self._clock.monotonic())

    def _lost_at(self, one: _Resource) -> float:
        """The time since which a resource waits for a connection, or for its first list (``Clock.monotonic``)."""
        return max(at for at in (self._started, one.known.lost, one.begun_at) if at is not None)

    def _readable(self, resource: str, devices: Iterable[Reported]) -> Iterable[Reported]:
        found: dict[str, Reported] = {}
        left_out = 0
        for device in devices:
            if 0 < len(device.id) <= MOST_ID and len(found) < MOST_IDS:
                found.setdefault(device.id, device)
            else:
                left_out += 1
        if left_out:
            self._log.error(
                "devices of a device plugin are left out",
                resource=resource,
                count=left_out,
                remedy=f"have it report at most {MOST_IDS} IDs of 1 to {MOST_ID} characters",
            )
        return found.values()

    def _choose(self) -> None:
        if not self._frozen:
            self._record.choose({name: one.known for name, one in self._resources.items()})


def _is_gone(report: ReportedCard, one: _Resource) -> bool:
    return all(each in one.known.gone for each in report.ids)


def _texts(ids: Collection[str]) -> str:
    return listed(list(ids), MAX_HEALTH_MESSAGE // 2)
