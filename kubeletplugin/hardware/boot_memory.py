"""Memory of lost and failed cards, shared by all programs of one boot."""

from collections.abc import Callable

from driver.clock import Clock
from driver.files import Files
from driver.observe import Logger
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.debounced_health import DebouncedHealth, Failures
from kubeletplugin.hardware.port import Hardware
from kubeletplugin.hardware.sticky_cards import StickyCards


def with_memory_of_boot(
    hardware: Hardware,
    folder: str,
    boot_id: str,
    recovery_seconds: float,
    files: Files,
    clock: Clock,
    log: Logger,
    finds: Callable[[], int] = lambda: 0,
) -> DebouncedHealth:
    """Cards of which lost ones stay and whose health is debounced, also over restarts of the program within one boot.

    Args:
        folder: the folder for the two files; they exist only while a card is lost or has failed.
        recovery_seconds: how long a card must work again before it counts as healthy.
        finds: see ``StickyCards``.
    """
    failed = BootFile(files, f"{folder}/failed-cards.json", boot_id, list[Card], log)
    failures = BootFile(files, f"{folder}/health.json", boot_id, Failures, log)
    return DebouncedHealth(StickyCards(hardware, failed, finds), clock, recovery_seconds, failures)
