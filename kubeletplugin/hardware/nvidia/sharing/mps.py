"""CUDA MPS: one control daemon for each shared card, which runs the kernels of all its containers side by side.

The memory of a share limits pinned device memory, and its cores, if it has any, the percentage of active threads. Both
limits are in the environment of the container's processes (CUDA MPS documentation, "Environment Variables"). A
container that changes its environment escapes them.
"""

from driver.errors import TransientFault
from kubeletplugin.hardware.actions import MpsDaemon
from kubeletplugin.hardware.edits import Edits, Mount
from kubeletplugin.hardware.nvidia.commands import Services
from kubeletplugin.hardware.nvidia.nvml.library import Nvml, set_exclusive
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.nvidia.runfolder import RunFolder
from kubeletplugin.hardware.port import FoundObject, Unsupported
from kubeletplugin.hardware.use import Share

_FOLDER = "mps"
_CONTROL = "nvidia-cuda-mps-control"
_WRITABLE = ("rw", "nosuid", "nodev", "bind")


class MpsDaemons:
    """The daemons of this program. They are services of the host, so they outlive the plugin."""

    def __init__(self, nvml: Nvml, root: DriverRoot, services: Services, run: RunFolder, prefix: str):
        self._nvml = nvml
        self._root = root
        self._services = services
        self._run = run
        self._prefix = prefix

    def found(self, card: str) -> tuple[FoundObject, ...]:
        """The daemon of a card; not complete if it does not run."""
        if card not in self._run.names(_FOLDER):
            return ()
        return (FoundObject(MpsDaemon(card), complete=self._services.runs(self._unit(card))),)

    def ensure(self, action: MpsDaemon) -> None:
        """Start the daemon, unless it runs, and wait for its first answer.

        Raises:
            TransientFault: it does not answer yet.
            Unsupported: the card has no compute modes; nothing is left of the daemon.
        """
        card = action.card
        pipe = self._run.make(_FOLDER, card, "pipe")
        log = self._run.make(_FOLDER, card, "log")
        memory = self._run.make(_FOLDER, card, "shm", shared=True)
        try:
            set_exclusive(self._nvml, card, on=True)
        except Unsupported:
            self._run.remove(_FOLDER, card)
            raise
        program = self._root.binary(_CONTROL)
        if program is None:
            raise TransientFault(f"no {_CONTROL} below {self._root.on_host('/')}; install it with the driver")
        environment = {
            "CUDA_VISIBLE_DEVICES": card,
            "CUDA_MPS_PIPE_DIRECTORY": pipe,
            "CUDA_MPS_LOG_DIRECTORY": log,
        }
        if not self._services.runs(self._unit(card)):
            # Processes of the daemon and of its clients share memory under names in /dev/shm.
            binds = {memory: "/dev/shm", pipe: pipe, log: log}
            self._services.start(self._unit(card), [program, "-f"], environment, self._root.on_host("/"), binds)
        self._services.call([program], environment, self._root.on_host("/"), "get_default_active_thread_percentage\n")

    def release(self, action: MpsDaemon) -> None:
        """Stop the daemon, and give the card back to ordinary processes."""
        if not self.found(action.card):
            return
        self._services.stop(self._unit(action.card))
        set_exclusive(self._nvml, action.card, on=False)
        self._run.remove(_FOLDER, action.card)

    def edits(self, card: str, share: Share | None) -> Edits:
        """The edits of a container, with the limits of its share; without a share there are no limits.

        The folder in the container is named after the card, so devices of two daemons in one container are refused.
        """
        inside = f"/tmp/nvidia-mps-{card}"
        folder = f"{self._run.path}/{_FOLDER}/{card}"
        env = [("CUDA_MPS_PIPE_DIRECTORY", inside)]
        if share is not None:
            # The daemon serves one card, which is its device 0.
            env.append(("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", f"0={share.memory_mib}M"))
            if share.cores:
                env.append(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(share.cores)))
        mounts = (Mount(f"{folder}/pipe", inside, _WRITABLE), Mount(f"{folder}/shm", "/dev/shm", _WRITABLE))
        return Edits(env=tuple(env), mounts=mounts)

    def _unit(self, card: str) -> str:
        return f"{self._prefix}-mps-{card}.service"
