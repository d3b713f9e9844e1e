"""What NVIDIA's container toolkit says about a driver's files, for operators who prefer it."""

import json
from collections.abc import Mapping
from typing import Any

from driver.errors import TransientFault
from kubeletplugin.hardware.edits import Edits, Hook, Mount
from kubeletplugin.hardware.nvidia.commands import Commands
from kubeletplugin.hardware.nvidia.root import DriverRoot


class ToolkitFiles:
    """``DriverFiles`` as ``nvidia-ctk cdi generate`` lists them. Device nodes are left to this program.

    Args:
        program: path of ``nvidia-ctk``, as this process sees it.
    """

    def __init__(self, root: DriverRoot, commands: Commands, program: str):
        self._root = root
        self._commands = commands
        self._program = program
        self._known: dict[str, Edits] = {}

    def edits(self, version: str) -> Edits:
        """See ``DriverFiles``; asked once for each version of the driver.

        Raises:
            TransientFault: the program fails, or answers something else.
        """
        if version not in self._known:
            here = f"--driver-root={self._root.seen('/')}"
            command = [self._program, "--quiet", "cdi", "generate", "--mode=nvml", "--format=json", here]
            text = self._commands.run(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            try:
                self._known[version] = self._translated(json.loads(text)["containerEdits"])
            except (ValueError, KeyError, TypeError) as error:
                raise TransientFault(f"{self._program}: does not answer with a CDI spec: {error}") from error
        return self._known[version]

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
        """The toolkit names files as this process sees them; the runtime needs where they are on the host."""
        here = str(self._root.seen("/")).rstrip("/")
        return self._root.on_host(path.removeprefix(here)) if path.startswith(f"{here}/") else path
