"""A node's device plugins without gRPC, and its files without a disk."""

from collections.abc import Iterable, Mapping, Sequence

from driver.errors import LodeError
from kubeletplugin.hardware.deviceplugin.answers import AnsweredDevice, PluginAnswer
from kubeletplugin.hardware.deviceplugin.backend import DevicePlugins
from kubeletplugin.hardware.deviceplugin.hostfiles import HostNode, HostTree
from kubeletplugin.hardware.deviceplugin.registry import Registration, Registry
from kubeletplugin.hardware.deviceplugin.reported import Reported


class FakeHostTree(HostTree):
    """Device nodes and files by path; a link is a path with another one as its value.

    Args:
        nodes: paths of device nodes, with the numbers that follow from their order.
    """

    def __init__(
        self,
        nodes: Sequence[str] = (),
        files: Mapping[str, bytes] | None = None,
        links: Mapping[str, str] | None = None,
    ):
        self.device_nodes = {path: number for number, path in enumerate(nodes)}
        self.contents = dict(files or {})
        self.links = dict(links or {})

    def exists(self, path: str) -> bool:
        every = (*self.device_nodes, *self.contents)
        return any(each == path or each.startswith(f"{path}/") for each in every)

    def nodes(self, path: str) -> tuple[HostNode, ...]:
        path = self.links.get(path, path)
        return tuple(
            HostNode(each.removeprefix(path).lstrip("/"), each, "c", 240, number)
            for each, number in self.device_nodes.items()
            if each == path or each.startswith(f"{path}/")
        )

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(path.rpartition("/")[2] for path in self.contents if path.rpartition("/")[0] == folder))

    def read(self, path: str, most: int) -> bytes:
        return self.contents[path][:most]


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
