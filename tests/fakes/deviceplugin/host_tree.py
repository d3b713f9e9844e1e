"""The files of a host without a disk."""

import errno
from collections.abc import Mapping, Sequence

from kubeletplugin.hardware.deviceplugin.hostfiles import HostNode, HostTree


class FakeHostTree(HostTree):
    """Device nodes and files by path; a link is a path with another one as its value.

    Args:
        nodes: paths of device nodes, with the numbers that follow from their order.
        owner: mode, user and group of all of them.
    """

    def __init__(
        self,
        nodes: Sequence[str] = (),
        files: Mapping[str, bytes] | None = None,
        links: Mapping[str, str] | None = None,
        owner: tuple[int, int, int] = (0o666, 0, 0),
    ):
        self.owner = owner
        self.device_nodes = {path: number for number, path in enumerate(nodes)}
        self.contents = dict(files or {})
        self.links = dict(links or {})

    def exists(self, path: str) -> bool:
        every = (*self.device_nodes, *self.contents)
        return any(each == path or each.startswith(f"{path}/") for each in every)

    def nodes(self, path: str) -> tuple[HostNode, ...]:
        path = self.links.get(path, path)
        return tuple(
            HostNode(each.removeprefix(path).lstrip("/"), each, "c", 240, number, *self.owner)
            for each, number in self.device_nodes.items()
            if each == path or each.startswith(f"{path}/")
        )

    def node(self, path: str) -> HostNode | None:
        return next((node for node in self.nodes(path) if path not in self.links and not node.path), None)

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(path.rpartition("/")[2] for path in self.contents if path.rpartition("/")[0] == folder))

    def read(self, path: str, most: int) -> bytes:
        if len(self.contents[path]) > most:
            raise OSError(errno.EFBIG, f"has more than {most} bytes", path)
        return self.contents[path]
