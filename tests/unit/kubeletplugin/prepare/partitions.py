"""Claims for partitions of cards, the hardware that they are made on, and what tests know of it."""

from collections.abc import Callable

from kubeletplugin.hardware import Action, Handle, Hardware
from kubeletplugin.hardware.actions import MigInstance
from kubeletplugin.prepare.checkpoint import PreparedClaim
from kubeletplugin.prepare.storage import ClaimStorage
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.faults import Killed
from tests.unit.kubeletplugin.plugin_node import (
    PluginNode,
    opaque,
)

MIG_6, MIG_5 = "gpu-0-mig-1g-5gb-6", "gpu-0-mig-1g-5gb-5"
ONE = ["mig:gpu-0:1g.5gb:6", "migmode:gpu-0"]


def records(rig: PluginNode) -> dict[str, PreparedClaim]:
    return dict(ClaimStorage(rig.files, rig.settings).load().claims)


def sharing(strategy: str, **more: str) -> dict[str, object]:
    return opaque(kind="GpuConfig", sharing=strategy, **more)


class Watched(HardwareDecorator):
    """Calls ``before`` before each change, with what is about to be changed."""

    def __init__(self, hardware: Hardware, before: Callable[[str, Action], None]):
        super().__init__(hardware)
        self._before = before

    def ensure(self, action: Action) -> Handle:
        self._before("ensure", action)
        return super().ensure(action)

    def release(self, action: Action, handle: Handle | None) -> None:
        self._before("release", action)
        super().release(action, handle)


# What others made


def make_foreign(rig: PluginNode, start: int) -> str:
    card = rig.hardware.cards()[0]
    action = MigInstance(card.uuid, "1g.5gb", start)
    rig.store.save(rig.store.load().with_action(action, {"uuid": "MIG-of-somebody-else"}))
    return action.key


class Dying(HardwareDecorator):
    """The plugin dies when it has made a partition, before it has stored the answer."""

    def ensure(self, action: Action) -> Handle:
        handle = super().ensure(action)
        if isinstance(action, MigInstance):
            raise Killed(action.key)
        return handle
