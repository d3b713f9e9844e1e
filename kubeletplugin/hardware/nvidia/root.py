"""The driver's files on the host, as this process sees them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from driver.errors import TransientFault
from kubeletplugin.hardware.devices import node_of
from kubeletplugin.hardware.edits import DeviceNode
from kubeletplugin.hardware.hostlinks import resolved

LIBRARY_FOLDERS = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/opt/nvidia/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/x86_64-linux-gnu/nvidia",
    "/usr/lib/nvidia/tesla",
    "/usr/local/glibc/usr/lib",
    "/lib",
)
"""Library folders of distributions (among them JetPack, Bottlerocket, Talos, and NixOS with ``/run/opengl-driver`` as
the root), driver containers and NVIDIA's installer."""
BINARY_FOLDERS = (
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
    "/usr/local/bin",
    "/opt/bin",
    "/opt/nvidia/bin",
    "/usr/local/nvidia/bin",
)


_ABSENT: Final = (FileNotFoundError, NotADirectoryError)


class DriverRoot:
    """The files of a driver below its root on the host: ``/``, or that of a driver container.

    Args:
        host: path of the root on the host.
        here: the path at which this process sees it; by default the same.
        dev: the folder of device nodes on the host, as this process sees it, for a root without ``/dev``.
        folders: more library folders, which are looked at first.
    """

    def __init__(self, host: str = "/", here: str = "", dev: str = "/dev", folders: Sequence[str] = ()):
        self._host = PurePosixPath(host)
        self._here = Path(here or host)
        self._top = str(self._here).removesuffix(host.rstrip("/")).rstrip("/")
        """Where this process sees the host's ``/``."""
        self._dev = Path(dev)
        self._folders = (*(folder.rstrip("/") for folder in folders), *LIBRARY_FOLDERS)

    def seen(self, path: str) -> Path:
        """The path at which this process sees a file of the root."""
        return self._here / path.lstrip("/")

    def found(self, path: str) -> Path | None:
        """The file of the root itself, behind links, as this process sees it; None if it is not there.

        An absolute link is one of a driver container's own files, or else of the host's.

        Raises:
            TransientFault: it cannot be looked at.
        """
        for top, inside in ((str(self._here).rstrip("/"), path), (self._top, self.on_host(path))):
            with suppress(*_ABSENT), _looking_at(inside):
                return Path(f"{top}{resolved(top, inside)}")
        return None

    def on_host(self, path: str) -> str:
        """The path on the host of a file of the root."""
        return str(self._host / path.lstrip("/"))

    def library(self, name: str) -> str | None:
        """The path in the root of a library; None if it is not there."""
        return next((path for folder in self._folders if self.exists(path := f"{folder}/{name}")), None)

    def libraries(self, version: str) -> tuple[str, ...]:
        """The paths in the root of the libraries that end in the driver's version; one for each name."""
        found: dict[str, str] = {}
        for folder in self._folders:
            for name in self._names(folder, f"lib*.so.{version}"):
                found.setdefault(name, f"{folder}/{name}")
            for name in self._names(f"{folder}/vdpau", f"lib*.so.{version}"):
                found.setdefault(name, f"{folder}/vdpau/{name}")
        return tuple(sorted(found.values()))

    def links_to(self, library: str) -> tuple[str, ...]:
        """The paths in the root of the links to a library that are beside it, such as that with its SONAME."""
        folder, _, name = library.rpartition("/")
        file, stem = self.found(library), name.partition(".so")[0]
        names = (f"{folder}/{each}" for each in self._names(folder, f"{stem}.so*") if each != name)
        return tuple(each for each in names if file is not None and self.found(each) == file)

    def matching(self, folder: str, pattern: str) -> tuple[str, ...]:
        """The paths in the root of the files of a folder whose names match, sorted."""
        return tuple(f"{folder}/{name}" for name in self._names(folder, pattern))

    def binary(self, name: str) -> str | None:
        """The path in the root of a program; None if it is not there."""
        return next((path for folder in BINARY_FOLDERS if self.exists(path := f"{folder}/{name}")), None)

    def exists(self, path: str) -> bool:
        """Whether there is a file in the root."""
        return self.found(path) is not None

    def device(self, path: str) -> DeviceNode | None:
        """A device node of the host, such as ``/dev/nvidia0``; None if it is not there.

        Raises:
            TransientFault: it cannot be looked at.
        """
        own = self.seen(path)
        with _looking_at(path):
            at_root = own.exists()
            seen = own if at_root else self._dev / PurePosixPath(path).relative_to("/dev")
            return self.node(seen, path, self.on_host(path) if at_root else path)

    def node(self, seen: Path, path: str, host_path: str) -> DeviceNode | None:
        """The device node that this process sees there; None if there is none. Raises OSError."""
        try:
            return node_of(seen.stat(), path, host_path)
        except _ABSENT:
            return None

    def _names(self, folder: str, pattern: str) -> Iterator[str]:
        if (found := self.found(folder)) is None:
            return
        with suppress(*_ABSENT), _looking_at(folder):
            yield from sorted(path.name for path in found.iterdir() if fnmatchcase(path.name, pattern))


@contextmanager
def _looking_at(path: str) -> Iterator[None]:
    try:
        yield
    except _ABSENT:
        raise
    except OSError as error:
        raise TransientFault(f"{path} of the host cannot be looked at: {error}") from error
