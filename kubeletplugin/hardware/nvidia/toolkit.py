"""The driver's files as NVIDIA's container toolkit lists them, for operators who prefer it."""

import json
from collections.abc import Mapping
from typing import Any

from driver.errors import TransientFault
from kubeletplugin.hardware.edits import Edits, Hook, Mount
from kubeletplugin.hardware.nvidia.commands import Commands
from kubeletplugin.hardware.nvidia.root import DriverRoot

_HOOK = "nvidia-cdi-hook"
_FOLDERS = ("/usr/bin", "/usr/local/nvidia/toolkit")
"""Folders in which packages and the GPU operator install it."""


class ToolkitFiles:
    """``DriverFiles`` as ``nvidia-ctk cdi generate`` lists them. Device nodes are left to this program.

    Args:
        root: the driver's files; ``host``: the host's.
        program: path of ``nvidia-ctk`` on the host.
        hook: path of ``nvidia-cdi-hook`` on the host; "" to look for it.
    """

    def __init__(self, root: DriverRoot, host: DriverRoot, commands: Commands, program: str, hook: str = ""):
        self._root = root
        self._host = host
        self._commands = commands
        self._name = program
        self._hook = hook
        self._program = str(host.seen(program))
        self._known: dict[str, tuple[Edits, tuple[str, ...]]] = {}
        """The answer for each version of the driver, and the files of the host that it names and that were there."""

    def edits(self, version: str) -> Edits:
        """See ``DriverFiles``. The toolkit runs once for each version of the driver, and again when a file is gone that
        its answer names: an upgrade has replaced the toolkit or moved the driver.

        Raises:
            TransientFault: the program fails or has an invalid answer, or the node does not have the hook, without
                which no container could start.
        """
        known = self._known.get(version)
        if known is None or not all(self._host.exists(path) for path in known[1]):
            here, hook = f"--driver-root={self._root.seen('/')}", f"--nvidia-cdi-hook-path={self._hook_path()}"
            command = [self._program, "--quiet", "cdi", "generate", "--mode=nvml", "--format=json", here, hook]
            text = self._commands.run(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            try:
                edits = self._translated(json.loads(text)["containerEdits"])
            except (ValueError, KeyError, TypeError) as error:
                raise TransientFault(f"{self._program}: does not answer with a CDI spec: {error}") from error
            named = [*(hook.path for hook in edits.hooks), *(mount.host_path for mount in edits.mounts)]
            known = self._known[version] = edits, tuple(path for path in named if self._host.exists(path))
        return known[0]

    def _hook_path(self) -> str:
        """Path of the hook on the host. If none is given, ``nvidia-ctk`` names one in /usr/bin, whether it exists or
        not."""
        beside = f"{self._name.rpartition('/')[0]}/{_HOOK}"
        places = [self._hook] if self._hook else [beside, *(f"{folder}/{_HOOK}" for folder in _FOLDERS)]
        for place in places:
            if self._host.exists(place):
                return place
        raise TransientFault(f"no {_HOOK} at {', '.join(places)} on the host; set kubeletplugin.nvidia.cdiHook")

    def _translated(self, edits: Mapping[str, Any]) -> Edits:
        lines = (line.partition("=") for line in edits.get("env", ()))
        return Edits(
            env=tuple((name, value) for name, _, value in lines if name != "NVIDIA_VISIBLE_DEVICES"),
            mounts=tuple(
                Mount(self._on_host(mount["hostPath"]), mount["containerPath"], tuple(mount.get("options", ())))
                for mount in edits.get("mounts", ())
            ),
            hooks=tuple(
                Hook(hook["path"], tuple(hook.get("args", ())), stage=hook["hookName"])
                for hook in edits.get("hooks", ())
            ),
        )

    def _on_host(self, path: str) -> str:
        """Replace paths as this process sees them by the paths on the host, which the runtime needs."""
        here = str(self._root.seen("/")).rstrip("/")
        return self._root.on_host(path.removeprefix(here)) if path.startswith(f"{here}/") else path
