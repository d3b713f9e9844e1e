"""The driver's files in every container with a card: libraries, programs, sockets, and a hook for the linker."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol

from driver.errors import TransientFault
from kubeletplugin.hardware.edits import Edits, Hook, Mount
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.port import HardwareRefusal

Linker = Literal["hook", "environment"]
"""``hook``: a hook makes the links to libraries and the linker's cache. ``environment``: links are mounted, and
LD_LIBRARY_PATH names the folders, for hosts without a shell."""

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

_SHELL: Final = "/bin/sh"
_TOOLS: Final = ("tr", "grep", "head", "sed")
"""What ``HOOK`` runs besides the linker's program, without which it says so and ends well."""

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


def missing_for_hook(host: DriverRoot) -> tuple[str, ...]:
    """The programs of the host that the hook needs and that are not there."""
    shell = () if host.exists(_SHELL) else (_SHELL,)
    return (*shell, *(name for name in _TOOLS if host.binary(name) is None))


class FoundFiles:
    """The driver's files as found below its root.

    Args:
        host: the host's ``/``, whose programs the hook runs; by default that of this process.
        linker: how programs in containers find the libraries.
    """

    def __init__(self, root: DriverRoot, host: DriverRoot | None = None, linker: Linker = "hook"):
        self._root = root
        self._host = host or DriverRoot()
        self._linker: Linker = linker

    def edits(self, version: str) -> Edits:
        """See ``DriverFiles``.

        Raises:
            TransientFault: there are no libraries of this version.
            HardwareRefusal: the host lacks programs that the hook needs; no container could start.
        """
        missing = missing_for_hook(self._host) if self._linker == "hook" else ()
        if missing:
            raise HardwareRefusal(
                f"the host has no {', '.join(missing)}, which the hook for the linker needs, so that no container "
                "would start; set kubeletplugin.nvidia.linker to environment, or nvidiaCtk to NVIDIA's nvidia-ctk"
            )
        libraries = self._root.libraries(version)
        if not libraries:
            raise TransientFault(
                f"no libraries of driver {version} below {self._root.on_host('/')}; set "
                "kubeletplugin.nvidia.driverRoot and libraryFolders"
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
        if self._linker == "hook":
            return Edits(mounts=tuple(mounts), hooks=(Hook(_SHELL, ("sh", "-c", HOOK, "linker", *folders)),))
        links = [self._mount(path, link, _FILE) for path in libraries for link in self._root.links_to(path)]
        every = {mount.container_path: mount for mount in (*mounts, *links)}
        return Edits(env=(("LD_LIBRARY_PATH", ":".join(folders)),), mounts=tuple(every.values()))

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
