"""The machine around the fake library: ``/sys``, ``/proc``, device nodes, the driver's files, the host's programs."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from driver.errors import TransientFault
from kubeletplugin.hardware.edits import DeviceNode
from kubeletplugin.hardware.nvidia.root import DriverRoot
from tests.fakes.nvml import LIBRARY, FakeNvml
from tests.fakes.nvml.models import Model

VERSION = "580.65.06"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PROGRAMS = ("nvidia-smi", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-persistenced")
SHELL = ("bin/sh", "usr/bin/tr", "usr/bin/grep", "usr/bin/head", "bin/sed")
_CAPS_MAJOR = 511


class TextRoot(DriverRoot):
    """A driver's files in which a device node is a text file with its numbers: to make real ones takes root."""

    def node(self, seen: Path, path: str, host_path: str) -> DeviceNode | None:
        """See ``DriverRoot``. Such a node is root's."""
        if not seen.is_file():
            return None
        major, minor = map(int, seen.read_text().split())
        return DeviceNode(path, host_path, major, minor)


class FakeMachine:
    """One node with a driver; everything is below ``folder`` and outlives the backend."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.host = folder / "host"
        self.nvml = FakeNvml(folder / "nvml")
        self.commands = FakeCommands(folder / "commands")
        for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
            self.file(f"{LIBRARIES}/{name}.so.{VERSION}")
        self.file(f"{LIBRARIES}/{LIBRARY}")
        for name in PROGRAMS:
            self.file(f"usr/bin/{name}")
        self.file("usr/local/vgpu/libvgpu.so", "shrreg_major_version")
        self.file("run/nvidia-persistenced/socket")
        for name in SHELL:
            self.file(name)
        self.node("nvidiactl", 195, 255)
        self.node("nvidia-uvm", 510, 0)
        self.node("nvidia-uvm-tools", 510, 1)
        self.file(
            "proc/devices", f"Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n{_CAPS_MAJOR} nvidia-caps\n"
        )

    @property
    def root(self) -> DriverRoot:
        """The driver's files, and the host's."""
        return TextRoot("/", str(self.host), str(self.host / "dev"))

    @property
    def proc(self) -> str:
        """The kernel's ``/proc``."""
        return str(self.host / "proc")

    @property
    def run(self) -> str:
        """What a reboot empties."""
        return str(self.folder / "run")

    def file(self, path: str, text: str = "") -> None:
        """A file of the host."""
        target = self.host / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def node(self, name: str, major: int, minor: int) -> None:
        """A device node of the host."""
        self.file(f"dev/{name}", f"{major} {minor}")

    def add(self, model: Model, **changes: str | int | None) -> int:
        """Add a card with its device node and the minor numbers of its MIG instances; returns its index."""
        index = self.nvml.add(model, **changes)
        minor = int(self.nvml.state()[f"gpu.{index}.minor"])
        self.node(f"nvidia{minor}", 195, minor)
        path = self.host / "proc/driver/nvidia-caps/mig-minors"
        lines = path.read_text() if path.exists() else "config 1\nmonitor 2\n"
        number = 3 + 135 * minor
        for gpu in range(15):
            parts = [f"gi{gpu}", *(f"gi{gpu}/ci{compute}" for compute in range(8))]
            lines += "".join(f"gpu{minor}/{part}/access {number + i}\n" for i, part in enumerate(parts))
            number += 9
        self.file("proc/driver/nvidia-caps/mig-minors", lines)
        return index

    def reboot(self) -> None:
        """Start the machine again: MIG instances and what is on temporary file systems are gone, MIG mode stays."""
        shutil.rmtree(self.run, ignore_errors=True)
        self.commands.forget()
        state = self.nvml.state()
        gone = {key: None for key in state if ".gi." in key}
        modes = {key: 0 for key in state if key.endswith(".computemode")}
        self.nvml.change({**gone, **modes})


class FakeCommands:
    """The host's programs: systemd with its services, the MPS control program, and nvidia-smi.

    Args:
        folder: where it is kept what was run, and which services run.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        (folder / "services").mkdir(parents=True)

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None, text: str = "") -> str:
        """See ``Commands``."""
        arguments = list(command)
        if arguments[0] == "chroot":
            arguments = arguments[2:]
        with (self._folder / "log").open("a") as log:
            log.write(" ".join(arguments) + "\n")
        name = arguments[0].rpartition("/")[2]
        if (self._folder / f"{name}.fails").exists():
            raise TransientFault(f"{name}: fails")
        answer = self._folder / f"{name}.answer"
        if answer.exists():
            return answer.read_text()
        unit = self._folder / "services" / arguments[-1].rpartition("/")[2]
        if arguments[:2] == ["systemctl", "show"]:
            return "active\n" if unit.exists() else "inactive\n"
        if arguments[:2] == ["systemctl", "stop"]:
            unit.unlink()
        if name == "systemd-run":
            (option,) = (each for each in arguments if each.startswith("--unit="))
            (self._folder / "services" / option.removeprefix("--unit=")).write_text(" ".join(arguments))
        if name == "nvidia-cuda-mps-control" and not self.services():
            raise TransientFault("Cannot find MPS control daemon process")
        return ""

    def log(self) -> list[str]:
        """Every command, in order."""
        path = self._folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def services(self) -> dict[str, str]:
        """The services that run, with the command that started them."""
        return {path.name: path.read_text() for path in (self._folder / "services").iterdir()}

    def answer(self, program: str, text: str) -> None:
        """Let a program write a text."""
        (self._folder / f"{program}.answer").write_text(text)

    def fail(self, program: str, *, fails: bool = True) -> None:
        """Let a program fail, or not."""
        path = self._folder / f"{program}.fails"
        path.touch() if fails else path.unlink()

    def forget(self) -> None:
        """All services have ended."""
        for path in (self._folder / "services").iterdir():
            path.unlink()
