"""The health stream: the kubelet writes the health of allocated devices into pod status (KEP-4680)."""

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc

from driver.clock import Clock
from driver.errors import TransientFault
from driver.kinds import EVERY_OFFER
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import Card, CardSource, Health
from kubeletplugin.hardware.port import HealthState
from kubeletplugin.inventory import Fabric, build_inventory

POLL_SECONDS = 1.0
"""Interval in which the hardware is asked. A change is reported within this time."""
_MISSED_REPORTS = 3
"""The kubelet sets the health of a device to unknown after this many missing reports."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of one device of the node's pool: that of its card, or its own if the card is healthy."""

    device: str
    health: Health


class HealthFeed:
    """Reports the health of every device that this node can offer, to any number of streams."""

    def __init__(self, source: CardSource, clock: Clock, settings: Settings, node_name: str, log: Logger):
        self._source = source
        self._clock = clock
        self._settings = settings
        self._log = log
        self._lock = threading.Lock()
        self._streams: set[threading.Event] = set()
        self._fault = ""
        """The reason why the hardware did not answer the last time; "" if it did."""
        self._devices: tuple[tuple[Card, ...], tuple[tuple[str, str], ...]] = ((), ())
        """The cards last seen, and the names of their devices, each with its card's name."""
        self.pool = settings.names.pool(node_name)
        self.timeout_seconds = math.ceil(_MISSED_REPORTS * settings.kubeletplugin.health_resend_seconds)

    def reports(self, ended: threading.Event) -> Iterator[tuple[DeviceHealth, ...]]:
        """Complete reports: one at once, then on every change and every ``healthResendSeconds``, until ``ended``.

        There are no reports while the hardware does not answer; the kubelet then sets the health to unknown.
        """
        with self._lock:
            self._streams.add(ended)
        last: tuple[DeviceHealth, ...] | None = None
        due = self._clock.monotonic()
        try:
            while not ended.is_set():
                report, now = self._report(), self._clock.monotonic()
                if report is not None and (report != last or now >= due):
                    yield report
                    last, due = report, now + self._settings.kubeletplugin.health_resend_seconds
                ended.wait(min(POLL_SECONDS, max(0.0, due - self._clock.monotonic())))
        finally:
            with self._lock:
                self._streams.discard(ended)

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            for ended in self._streams:
                ended.set()

    def now(self) -> int:
        """The time of a report, in whole seconds since the epoch."""
        return int(self._clock.now())

    def _report(self) -> tuple[DeviceHealth, ...] | None:
        settings = self._settings
        try:
            cards, health = self._source.cards(), self._source.health()
        except TransientFault as fault:
            if self._fault != str(fault):
                self._log.warning("hardware not available", reason=str(fault))
            self._fault = str(fault)
            return None
        self._fault = ""
        known, devices = self._devices
        if known != cards:
            contents = build_inventory(cards, Fabric(), EVERY_OFFER, settings.kubeletplugin.slots, settings.names)
            devices = tuple((item.device.name, item.card.name) for item in contents.offered)
            self._devices = cards, devices
        return tuple(DeviceHealth(device, _health(health, device, card)) for device, card in devices if card in health)


def _health(health: Mapping[str, Health], device: str, card: str) -> Health:
    return health.get(device, health[card]) if health[card].healthy else health[card]


_NAMES: Final[Mapping[HealthState, str]] = {"healthy": "HEALTHY", "unknown": "UNKNOWN"}
"""Values of ``HealthStatus``; the other states are ``UNHEALTHY``."""


class HealthService:
    """``DRAResourceHealth`` of one version; ``messages`` is that version's generated module."""

    def __init__(self, messages: Any, feed: HealthFeed):
        self._messages = messages
        self._feed = feed

    def NodeWatchResources(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """The stream of one kubelet."""
        ended = threading.Event()
        if context.add_callback(ended.set):
            for report in self._feed.reports(ended):
                yield self._response(report)

    def _response(self, report: tuple[DeviceHealth, ...]) -> Any:
        pb, now = self._messages, self._feed.now()
        return pb.NodeWatchResourcesResponse(
            devices=[
                pb.DeviceHealth(
                    device=pb.DeviceIdentifier(pool_name=self._feed.pool, device_name=item.device),
                    health=getattr(pb, _NAMES.get(item.health.state, "UNHEALTHY")),
                    last_updated_time=now,
                    health_check_timeout_seconds=self._feed.timeout_seconds,
                    message=item.health.message,
                )
                for item in report
            ]
        )
