"""HAMi-core: a library in the container that keeps its processes within the memory and cores of their share.

It is loaded into every dynamically linked program of the container, before CUDA. Programs that are linked statically,
or to another C library, are not limited. Containers with whole cards do not get it.

The limits are in the file in which the processes of a claim count, which is made before the container starts and is
where the library looks without being told. So a process without the container's environment is limited, too.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from driver.errors import TransientFault
from kubeletplugin.hardware.actions import HamiRegion
from kubeletplugin.hardware.edits import Edits, Mount
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.nvidia.runfolder import RunFolder
from kubeletplugin.hardware.nvidia.sharing.region import (
    DEFAULT_PATH,
    FILE_NAME,
    MOST_CARDS,
    CardLimit,
    UnreadableRegion,
    knows_region,
    unfinished_name,
    write_limit,
)
from kubeletplugin.hardware.port import FoundObject, Unsupported
from kubeletplugin.hardware.use import Share

_FOLDER = "hami"
_LIBRARY = "/usr/local/vgpu/libvgpu.so"
"""Path of the library in a container: HAMi-core looks for itself there."""
_READ_ONLY = ("ro", "nosuid", "nodev", "bind")
_WRITABLE = ("rw", "nosuid", "nodev", "bind")


def region_folders(run_folder: str) -> Iterator[tuple[str, Path]]:
    """The uid of each claim that has a folder, and the folder; none if they cannot be read."""
    run = RunFolder(run_folder)
    try:
        for card in run.names(_FOLDER):
            for claim in run.names(_FOLDER, card):
                yield claim, Path(run_folder, _FOLDER, card, claim)
    except TransientFault:
        return


class HamiRegions:
    """Folders in which the processes of a claim account for their memory, one for each claim.

    Args:
        library: path of ``libvgpu.so`` on the host; ``host``: the host's files.
    """

    def __init__(self, host: DriverRoot, run: RunFolder, library: str):
        self._host = host
        self._run = run
        self._library = library

    def found(self, card: str) -> tuple[FoundObject, ...]:
        """The folders of claims whose first card is this one."""
        return tuple(FoundObject(HamiRegion(card, claim)) for claim in self._run.names(_FOLDER, card))

    def check(self) -> None:
        """Raises Unsupported if the library is not on the host."""
        if not self._host.exists(self._library):
            raise Unsupported(
                f"sharing hamiCore needs {self._library} on the node; install HAMi-core there, or use another sharing"
            )

    def ensure(self, action: HamiRegion) -> None:
        """Create the folder. An existing one keeps its content: other containers of the claim may run."""
        self._run.make(_FOLDER, action.card, action.claim, shared=True)

    def release(self, action: HamiRegion) -> None:
        """Remove the folder, and the file that a killed program may have left."""
        self._run.remove(_FOLDER, action.card, unfinished_name(action.claim))
        self._run.remove(_FOLDER, action.card, action.claim)

    def edits(self, claim: str, share: Share, card: str, together: Sequence[str]) -> Edits:
        """The edits of a container, with the limits of the share under the card's number in the container.

        Raises:
            TransientFault: the limits cannot be written, or the library cannot be read.
        """
        number = together.index(card)
        preload = self._run.write("ld.so.preload", text=f"{_LIBRARY}\n")
        lock = self._run.make("hami-lock", shared=True)
        alone = len(together) == 1  # the container may have cards of other requests, with numbers that are not known
        env = [(f"CUDA_DEVICE_MEMORY_LIMIT_{number}", f"{share.memory_mib}m"), ("LIBCUDA_LOG_LEVEL", "1")]
        if alone:
            env.append(("CUDA_DEVICE_MEMORY_LIMIT", f"{share.memory_mib}m"))
        if share.cores:
            env.append((f"CUDA_DEVICE_SM_LIMIT_{number}", str(share.cores)))
        folder = Path(self._run.path, _FOLDER, together[0], claim)
        if self._has_known_region():
            self._write_limit(folder, range(MOST_CARDS) if alone else (number,), share)
            region = Mount(str(folder / FILE_NAME), DEFAULT_PATH, _WRITABLE)
        else:
            inside = f"/usr/local/vgpu/claims/{claim}"
            env.append(("CUDA_DEVICE_MEMORY_SHARED_CACHE", f"{inside}/{FILE_NAME}"))
            region = Mount(str(folder), inside, _WRITABLE)
        mounts = (
            Mount(self._library, _LIBRARY, _READ_ONLY),
            Mount(preload, "/etc/ld.so.preload", _READ_ONLY),
            region,
            Mount(lock, "/tmp/vgpulock", _WRITABLE),
        )
        return Edits(env=tuple(env), mounts=mounts)

    def _has_known_region(self) -> bool:
        try:
            return knows_region(self._host.seen(self._library).read_bytes())
        except OSError as error:
            raise TransientFault(f"{self._library}: cannot be read: {error}") from error

    def _write_limit(self, folder: Path, numbers: Collection[int], share: Share) -> None:
        try:
            write_limit(folder, numbers, CardLimit(share.memory_mib << 20, share.cores or 100))
        except (UnreadableRegion, OSError) as error:  # a container may have changed the file at once
            raise TransientFault(f"{folder}: limits cannot be written: {error}") from error
