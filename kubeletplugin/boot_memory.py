"""Memory of lost and failed cards, shared by all programs of one boot."""

from collections.abc import Callable

from kubeletplugin.hardware import Card
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.debounced_health import DebouncedHealth, Failures
from kubeletplugin.hardware.left_out import LeftOut
from kubeletplugin.hardware.sticky_cards import StickyCards
from kubeletplugin.node_context import NodeContext


def with_memory_of_boot(node: NodeContext, folder: str, finds: Callable[[], int] = lambda: 0) -> DebouncedHealth:
    """The node's cards, of which lost ones stay and whose health is debounced, also when the program restarts.

    Args:
        folder: the folder for the two files; they exist only while a card is lost or has failed.
        finds: see ``StickyCards``.
    """
    failed = BootFile(node.files, f"{folder}/failed-cards.json", node.boot_id, list[Card], node.log)
    failures = BootFile(node.files, f"{folder}/health.json", node.boot_id, Failures, node.log)
    settings = node.settings.kubeletplugin
    cards = StickyCards(node.hardware, failed, finds, LeftOut(settings.exclude_cards))
    return DebouncedHealth(cards, node.clock, settings.recovery_seconds, failures)
