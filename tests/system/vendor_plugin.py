"""One run of the kubelet plugin on the backends for the vendors' libraries, put together as the program does it."""

import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from driver.errors import LodeError
from driver.files import Files
from driver.kube.api import NODES
from driver.observe import Logger, Metrics
from driver.threads import Threads
from kubeletplugin.hardware import Action, Card, CardState, Edits, Handle, Hardware, HardwarePorts, Health, Use
from kubeletplugin.hardware.choosing import BackendChoice, CombinedHardware
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.hardware.infiniband import Attachments
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.inventory import Inventory
from kubeletplugin.offers import Recorded
from kubeletplugin.prepare import Preparer
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from kubeletplugin.publish import PublishingMetrics
from kubeletplugin.publish.cards import CardMonitor
from kubeletplugin.publish.dropped import DroppedFields
from kubeletplugin.publish.other_drivers import OtherProgram
from kubeletplugin.publish.other_programs import OtherPrograms, file_of_signs
from kubeletplugin.publish.pool import PoolBuilder
from kubeletplugin.publish.reports import ErrorReports
from tests.simulation.files import MemoryFiles
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.system.vendor_kubelet import OtherHands
from tests.unit.kubeletplugin.plugin_node import NODE, PluginNode

POLL_SECONDS = 5.0
"""The pause of the publisher between two looks at the cards."""


class AnnouncedHardware(HardwareDecorator):
    """Announces each call of the port, before it begins and when it has ended."""

    def __init__(self, hardware: Hardware, announce: Callable[[], None]):
        super().__init__(hardware)
        self._announce = announce

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        self._announce()
        return super().cards()

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        self._announce()
        return super().health()

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        self._announce()
        return super().observe(card)

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``."""
        self._announce()
        return super().actions(use, taken)

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        self._announce()
        return super().ensure(action)

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self._announce()
        super().release(action, handle)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        self._announce()
        return super().edits(use, handles)


class _AtOnce(Threads):
    def run(self, work: Callable[[], None]) -> None:
        """See ``Threads``; the work is done when it has been started."""
        work()


class VendorPlugin:
    """One run of the plugin, of which a history takes the place of the threads.

    Args:
        find: makes the backend; called when it is first needed.
        files: outlive the run.
        sysfs: of the machine, to find its InfiniBand fabric.
        hands: what other programs hand out; None if nothing asks for it.
    """

    def __init__(
        self,
        rig: PluginNode,
        find: Callable[[], Hardware],
        files: Files,
        log: Logger,
        sysfs: Sysfs,
        hands: OtherHands | None = None,
    ):
        self._clock = rig.clock
        self._log = log
        self.announce: Callable[[], None] = lambda: None
        """Called at each call of the port."""
        self.is_tidy = self.has_recovered = False

        def found() -> CombinedHardware:
            hardware = AnnouncedHardware(find(), lambda: self.announce())
            infiniband = Attachments(sysfs, (), rig.clock, log)
            return CombinedHardware([BackendChoice("vendor", lambda: True, lambda: hardware)], infiniband.attached)

        guarded = GuardedHardware(found, rig.clock, 0, 0, threads=_AtOnce())
        context = replace(rig.context(files=files), hardware=HardwarePorts(guarded, guarded), log=log)
        self._cards = context.remembered_cards(plugin_directory(rig.settings), guarded.finds)
        context = replace(context, hardware=HardwarePorts(self._cards, guarded))
        metrics = Metrics()
        self.preparer = Preparer(context, metrics)
        retiring, recorded = self.preparer.retiring, self.preparer.recorded
        self.monitor = CardMonitor(context.hardware, log, retiring.releasing, recorded)
        reports = ErrorReports(log)
        self._pool = PoolBuilder(NODE, rig.settings, DroppedFields(), PublishingMetrics(metrics), reports)
        self._node = rig.api.get(NODES, NODE)
        self._hands = hands
        self._others: OtherPrograms | None = None
        if hands is not None:
            self._others = OtherPrograms(
                rig.clock, hands.answer, file_of_signs(files, plugin_directory(rig.settings), log)
            )
        self._look_at = self._restore_at = 0.0

    def work(self) -> Inventory | None:
        """Do what is due; returns what the plugin now offers, None if that is what was offered before."""
        now = self._clock.monotonic()
        try:
            if not self.is_tidy:
                self.preparer.tidy()
                self.is_tidy = True
            if not self.has_recovered:
                self._cards.cards()
                self.preparer.restore()
                self.has_recovered = True
        except (LodeError, OSError) as error:
            self._log.warning("cannot start yet", reason=str(error))
        if self.is_tidy:
            while self.preparer.retiring.step():
                pass
        if not self.has_recovered:
            return None
        if self.preparer.unrestored and now >= self._restore_at:
            self._restore_at = now + 10.0
            try:
                self.preparer.restore_rest()
            except (LodeError, OSError) as error:
                self._log.warning("claims not restored yet", reason=str(error))
        if now < self._look_at:
            return None
        self._look_at = now + POLL_SECONDS
        return self.look()

    def look(self) -> Inventory | None:
        """Look at the cards; returns what is offered, None if the hardware does not answer."""
        try:
            self.monitor.refresh()
        except LodeError as error:
            self._log.warning("hardware not available", reason=str(error))
            return None
        programs: Mapping[str, tuple[OtherProgram, ...]] = {}
        if self._others and self._hands:
            programs = self._others.find(self.monitor.state.known, self._hands.node(self._node), ())
        return self._pool.inventory(self._node, self.monitor.state, programs)


def copied(files: MemoryFiles) -> MemoryFiles:
    """Other files with the same content."""
    copy = MemoryFiles()
    put(copy, files.disk.content())
    return copy


def put(files: MemoryFiles, content: Mapping[str, bytes]) -> None:
    """Let the disk have these files, and no others."""
    for path in files.disk.content().keys() | content.keys():
        files.disk.lose(path, content.get(path))


def keep(files: MemoryFiles, place: Path) -> None:
    """Write what is on the disk into a file, for another process."""
    place.write_bytes(pickle.dumps(files.disk.content()))


def kept(place: Path) -> Mapping[str, bytes]:
    """What ``keep`` has written."""
    content: Mapping[str, bytes] = pickle.loads(place.read_bytes())
    return content


def recorded_in(files: Files, rig: PluginNode) -> Recorded:
    """What the claims of the checkpoint have."""
    return ClaimStorage(files, rig.settings).load().recorded
