"""A node's device plugins without gRPC."""

from collections.abc import Iterable, Mapping

from driver.errors import LodeError
from kubeletplugin.hardware.deviceplugin.answers import AnsweredDevice, PluginAnswer
from kubeletplugin.hardware.deviceplugin.backend import DevicePlugins
from kubeletplugin.hardware.deviceplugin.registry import Registration, Registry
from kubeletplugin.hardware.deviceplugin.reported import Reported


class FakePlugins(DevicePlugins):
    """Device plugins that are connected and report these lists."""

    def __init__(self, registry: Registry, lists: Mapping[str, Iterable[Reported]]):
        self._registry = registry
        self._lists = lists
        self.registrations: dict[str, Registration] = {}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.error: LodeError | None = None
        self.sets_variables = True
        for resource in lists:
            self.registrations[resource] = registry.begin(resource, f"{resource.partition('/')[0]}.sock")
        self.list_again()

    def list_again(self) -> None:
        for resource, devices in self._lists.items():
            self._registry.listed(self.registrations[resource], devices)

    def tend(self) -> None:
        pass

    def allocate(self, resource: str, ids: tuple[str, ...]) -> PluginAnswer:
        self.asked.append((resource, ids))
        if self.error:
            raise self.error
        env = {"VISIBLE": ",".join(ids)} if self.sets_variables else {}
        return PluginAnswer(env, devices=(AnsweredDevice("/dev/amd", "/dev/amd", "rw"),))
