"""The driver's files in every container with a card: libraries, programs, sockets, and a hook for the linker."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from driver.errors import TransientFault
from kubeletplugin.hardware.edits import Edits, Hook, Mount
from kubeletplugin.hardware.nvidia.root import DriverRoot

_PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_DATA = (
    "/etc/vulkan/icd.d/nvidia_icd.json",
    "/etc/vulkan/icd.d/nvidia_layers.json",
    "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
    "/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
    "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/share/nvidia/nvoptix.bin",
    "/usr/share/vulkan/icd.d/nvidia_icd.json",
    "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
)
"""Files by which the loaders of Vulkan and EGL find the driver, and data of OptiX."""
_WINDOW_LIBRARIES = ("libnvidia-egl-gbm.so.*", "libnvidia-egl-wayland.so.*")
"""Libraries of the driver with versions of their own."""
_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
_LINKED = {"libcuda.so": "libcuda.so.1"}
"""Names by which programs load a library at run time, beside its SONAME."""
_FILE = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SOCKET = ("nosuid", "nodev", "noexec", "rbind", "rprivate")

# ldconfig changes its root before it reads anything, so the content of the image cannot lead it to the host's files.
# The first match counts: later in the text are annotations, which users write.
HOOK = r"""text() { tr -d '\n' | grep -o "$1" | head -n 1 | sed 's/.*"\([^"]*\)"$/\1/'; }
bundle=$(text '"bundle" *: *"[^"]*"')
[ -r "$bundle/config.json" ] || { echo "no container configuration in $bundle" >&2; exit 1; }
root=$(text '"root" *: *{[^}]*"path" *: *"[^"]*"' <"$bundle/config.json")
case $root in
    /*) ;;
    *) root=$bundle/${root:-rootfs} ;;
esac
[ -d "$root/etc" ] || exit 0
for ldconfig in /sbin/ldconfig.real /usr/sbin/ldconfig.real /sbin/ldconfig /usr/sbin/ldconfig; do
    [ -x "$ldconfig" ] && exec "$ldconfig" -r "$root" "$@"
done
echo "no ldconfig on this host: programs find the driver's libraries only in the linker's default folders" >&2
"""
"""A shell script that the container runtime runs before a container starts (OCI hook createContainer).

It creates the links to the driver's libraries and the linker's cache in the container's root. The arguments are library
folders. The script is part of the CDI spec, so that the node needs no file for it."""


class DriverFiles(Protocol):
    """The driver's files for containers."""

    def edits(self, version: str) -> Edits:
        """Mounts, environment and hooks of a driver's version. May raise TransientFault."""
        ...


class FoundFiles:
    """The driver's files as found below its root."""

    def __init__(self, root: DriverRoot):
        self._root = root

    def edits(self, version: str) -> Edits:
        """See ``DriverFiles``.

        Raises:
            TransientFault: there are no libraries of this version.
        """
        libraries = self._root.libraries(version)
        if not libraries:
            raise TransientFault(
                f"no libraries of driver {version} below {self._root.on_host('/')}; set kubeletplugin.nvidia.driverRoot"
            )
        mounts = [self._mount(path, path, _FILE) for path in libraries]
        for path in libraries:
            folder, _, name = path.rpartition("/")
            stem = name.removesuffix(f".{version}")
            if stem in _LINKED:
                mounts += [self._mount(path, f"{folder}/{link}", _FILE) for link in (stem, _LINKED[stem])]
        for name in _PROGRAMS:
            if path_of := self._root.binary(name):
                mounts.append(self._mount(path_of, f"/usr/bin/{name}", _FILE))
        mounts += [self._mount(path, path, _FILE) for path in self._data(version, libraries)]
        mounts += [self._mount(path, path, _SOCKET) for path in _SOCKETS if self._root.exists(path)]
        folders = sorted({path.rpartition("/")[0] for path in libraries})
        return Edits(mounts=tuple(mounts), hooks=(Hook("/bin/sh", ("sh", "-c", HOOK, "linker", *folders)),))

    def _data(self, version: str, libraries: Sequence[str]) -> Iterator[str]:
        """Files beside the libraries and programs: those of display libraries, and the firmware of the cards."""
        yield from (path for path in _DATA if self._root.exists(path))
        for folder in sorted({path.rpartition("/")[0] for path in libraries}):
            for pattern in _WINDOW_LIBRARIES:
                yield from (path for path in self._root.matching(folder, pattern) if path not in libraries)
        for folder in (f"/lib/firmware/nvidia/{version}", f"/usr/lib/firmware/nvidia/{version}"):
            if firmware := self._root.matching(folder, "gsp*.bin"):
                yield from firmware
                return

    def _mount(self, path: str, inside: str, options: tuple[str, ...]) -> Mount:
        return Mount(self._root.on_host(path), inside, options)
