"""The ports of one instance of the plugin: it may die, or another thread may run, at any call."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driver.kube.api import ApiCall, Unavailable
from driver.kube.decorator import ApiDecorator
from kubeletplugin.hardware import Action, Handle
from tests.simulation.hardware import NodeHardware
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.simulation.process import Process, ProcessDisk
from tests.system.turns import Condition
from tests.unit.kubeletplugin.plugin_node import PluginNode


class InstanceDisk(ProcessDisk):
    """The node's disk as one instance has it; who wants a lock that somebody holds lets others run."""

    def __init__(self, rig: PluginNode, process: Process, wait: Callable[[Condition], None]):
        super().__init__(rig.files.disk, process)
        self._wait = wait

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """See ``Disk``."""
        self._process.call()
        while self._disk.is_locked(path):
            self._wait(lambda: not self._disk.is_locked(path))
        with self._disk.lock(path):
            yield


class InstanceClock:
    """The node's clock as one instance has it."""

    def __init__(self, rig: PluginNode, sleep: Callable[[float], None]):
        self.now = rig.clock.now
        self.monotonic = rig.clock.monotonic
        self.sleep = sleep


class InstanceApi(ApiDecorator):
    """The API as one instance has it; sometimes it does not answer."""

    def __init__(self, rig: PluginNode, process: Process, randomness: random.Random):
        super().__init__(rig.api)
        self._process = process
        self._random = randomness

    def before(self, call: ApiCall) -> None:
        """See ``ApiDecorator``."""
        self._process.call()
        if self._random.random() < 0.03:
            raise Unavailable("connection refused")


class SlowHardware(HardwareDecorator):
    """The node's cards as one instance has them; to make or remove something sometimes takes seconds."""

    def __init__(self, hardware: NodeHardware, process: Process, pause: Callable[[], None]):
        super().__init__(hardware.of(process.call))
        self._pause = pause

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        self._pause()
        handle = super().ensure(action)
        self._pause()
        return handle

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self._pause()
        super().release(action, handle)
        self._pause()
