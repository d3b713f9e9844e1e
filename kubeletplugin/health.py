"""The health stream: what the kubelet writes into pod status about allocated devices (KEP-4680)."""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from driver.clock import Clock
from driver.errors import TransientFault
from driver.kinds import EVERY_OFFER
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin import inventory
from kubeletplugin.hardware import Card, Hardware, Health
from kubeletplugin.inventory import Facts

LOOK_SECONDS = 1.0
"""How often the hardware is asked, so that a change is told about that soon."""
_MISSED_REPORTS = 3
"""A device is unknown to the kubelet once this many reports stayed out."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of one device of the node's pool: that of the card it is on."""

    device: str
    health: Health


class HealthFeed:
    """Reports about every device this node can offer, to any number of streams."""

    def __init__(self, hardware: Hardware, clock: Clock, settings: Settings, node_name: str, log: Logger):
        self._hardware = hardware
        self._clock = clock
        self._settings = settings
        self._log = log
        self._lock = threading.Lock()
        self._streams: set[threading.Event] = set()
        self._devices: tuple[tuple[Card, ...], tuple[tuple[str, str], ...]] = ((), ())
        """Names of the devices of these cards, each with its card's name."""
        self.pool = settings.names.pool(node_name)
        self.timeout_seconds = math.ceil(_MISSED_REPORTS * settings.kubeletplugin.health_resend_seconds)

    def reports(self, ended: threading.Event) -> Iterator[tuple[DeviceHealth, ...]]:
        """Complete reports: one at once, then on every change and every ``healthResendSeconds``, until ``ended``.

        While the hardware gives no answer there are none, and the kubelet calls the devices unknown after a while.
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
                ended.wait(min(LOOK_SECONDS, max(0.0, due - self._clock.monotonic())))
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
            cards, health = self._hardware.cards(), self._hardware.health()
        except TransientFault as fault:
            self._log.warning("no health report", reason=str(fault))
            return None
        known, devices = self._devices
        if known != cards:
            found = inventory.devices(cards, Facts(), EVERY_OFFER, settings.kubeletplugin.slots, settings.names)
            devices = tuple((item.device.name, item.card.name) for item in found.offered)
            self._devices = cards, devices
        return tuple(DeviceHealth(device, health[card]) for device, card in devices if card in health)


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
                    health=pb.HEALTHY if item.health.healthy else pb.UNHEALTHY,
                    last_updated_time=now,
                    health_check_timeout_seconds=self._feed.timeout_seconds,
                    message=item.health.message,
                )
                for item in report
            ]
        )
