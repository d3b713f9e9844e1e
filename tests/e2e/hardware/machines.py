"""Workers with cards: fakes of the vendors' libraries, and what a driver has around them on a node."""

import base64
import io
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from testclusters.kind import KindCluster
from tests.e2e.nodes import PLUGIN
from tests.fakes.dcmi import FakeDcmi
from tests.fakes.dcmi.models import ASCEND_310P3
from tests.fakes.nvml import LIBRARY as NVML
from tests.fakes.nvml import FakeNvml
from tests.fakes.nvml.machine import LIBRARIES, SHELL, FakeMachine
from tests.fakes.nvml.models import H100
from tests.fakes.state import parsed
from tests.fakes.sysfs_tree import add_function, add_hca

_GPUS, _NPUS = 8, 2
"""Cards of each machine."""
FABRIC = "fec0:0000:0000:00a1"
"""The subnet prefix of the InfiniBand fabric of NVIDIA's machine."""
_KERNEL = "var/lib/lode-test"
"""``proc`` and ``sys`` of the machines, as ``overlay/fakes/settings.yaml`` says."""
_CHANGE = """
grep -v "$2" "$1" >"$1.new"; printf %s "$3" >>"$1.new" && cat "$1.new" >"$1" && rm "$1.new"
"""
_MPS_CONTROL = """#!/bin/sh
if [ "$1" = -f ]; then
    touch "$CUDA_MPS_PIPE_DIRECTORY/control"
    exec sleep infinity
fi
[ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ] && echo 100.0
"""


@dataclass(frozen=True)
class FakeLibrary:
    """The state of a fake library on a node, with the keys that ``tests.fakes`` says."""

    cluster: KindCluster
    node: str
    path: str

    def state(self) -> dict[str, str]:
        """All keys."""
        return parsed(self.cluster.node_exec(self.node, "flock", f"{self.path}.lock", "cat", self.path).stdout)

    def change(self, values: Mapping[str, str | int | None]) -> None:
        """Set keys; None removes one and those below it."""
        ends = {key: "[ .]" if value is None else " " for key, value in values.items()}
        replaced = "\n".join(f"^{key.replace('.', '[.]')}{end}" for key, end in ends.items())
        lines = "".join(f"{key} {value}\n" for key, value in values.items() if value is not None)
        command = ("flock", f"{self.path}.lock", "sh", "-c", _CHANGE, "sh", self.path, replaced, lines)
        self.cluster.node_exec(self.node, *command)


@dataclass(frozen=True)
class CardMachine:
    """A worker with cards of one vendor."""

    cards: int
    library: FakeLibrary
    files: str
    """An archive of the files below ``/``, in base64."""
    devices: Mapping[str, tuple[int, int]]
    """Major and minor numbers of the device files, by their names in ``/dev``."""

    @property
    def node(self) -> str:
        """Its name."""
        return self.library.node

    @classmethod
    def nvidia(cls, cluster: KindCluster, node: str) -> Self:
        """An H100 machine whose cards are in one InfiniBand fabric. What it has is not on the node yet."""
        with tempfile.TemporaryDirectory() as folder:
            machine = FakeMachine(Path(folder))
            for _ in range(_GPUS):
                machine.add(H100)
            host, sysfs = machine.host, machine.host / _KERNEL / "sys"
            for number, bus_id in _bus_ids(machine.nvml.state(), "gpu").items():
                add_function(sysfs, f"pci0000:{number:02x}", f"0000:{number:02x}:01.0", bus_id, numa_node=number)
                add_hca(sysfs, f"mlx5_{number}", f"pci0000:{number:02x}", f"0000:{number:02x}:02.0", subnet=FABRIC)
            shutil.copy(FakeNvml.library(), host / LIBRARIES / NVML)
            (host / "usr/bin/nvidia-cuda-mps-control").write_text(_MPS_CONTROL)
            (host / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
            for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
                (host / "usr/bin" / name).chmod(0o755)
            for name in SHELL:
                (host / name).unlink()  # the node has its own
            devices = {path.name: _numbers(path.read_text()) for path in (host / "dev").iterdir()}
            shutil.rmtree(host / "dev")
            shutil.move(host / "proc", host / _KERNEL / "proc")
            return cls._with(_GPUS, FakeLibrary(cluster, node, f"{PLUGIN}/fake-nvml"), host, devices, machine.nvml.path)

    @classmethod
    def ascend(cls, cluster: KindCluster, node: str) -> Self:
        """A 310P machine. What it has is not on the node yet."""
        with tempfile.TemporaryDirectory() as temporary:
            host, fake = Path(temporary, "host"), FakeDcmi(Path(temporary, "dcmi"))
            for _ in range(_NPUS):
                fake.add(ASCEND_310P3)
            fake.change({"dev": "/dev"})
            for path in (
                "etc/ascend_install.info",
                "usr/local/Ascend/driver/version.info",
                "usr/local/dcmi/libdcmi.so",
            ):
                (host / path).parent.mkdir(parents=True, exist_ok=True)
                (host / path).touch()
            shutil.copy(FakeDcmi.library(), host / "usr/local/dcmi/libdcmi.so")
            names = ("davinci_manager", "devmm_svm", "hisi_hdc", *(f"davinci{number}" for number in range(_NPUS)))
            devices = {name: (236, minor) for minor, name in enumerate(names)}
            return cls._with(_NPUS, FakeLibrary(cluster, node, f"{PLUGIN}/fake-dcmi"), host, devices, fake.path)

    @classmethod
    def _with(
        cls,
        cards: int,
        library: FakeLibrary,
        host: Path,
        devices: Mapping[str, tuple[int, int]],
        state: Path,
    ) -> Self:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as out:
            out.add(host, ".")
        command = ("sh", "-c", f"mkdir -p {PLUGIN} && cat >{library.path}")
        library.cluster.node_exec(library.node, *command, input=state.read_text())
        return cls(cards, library, base64.b64encode(archive.getvalue()).decode(), devices)

    def load_driver(self) -> None:
        """Put the files and the device files on the node, as when its driver is loaded."""
        nodes = "; ".join(
            f"[ -e /dev/{name} ] || mknod /dev/{name} c {major} {minor}"
            for name, (major, minor) in self.devices.items()
        )
        script = (
            f"base64 -d | tar --extract --gzip --no-same-owner --keep-directory-symlink --directory / && {{ {nodes}; }}"
        )
        self.library.cluster.node_exec(self.node, "sh", "-c", script, input=self.files)

    def power_cycle(self) -> None:
        """Power the node off and on. MIG instances are gone, vNPUs come back, and then the driver is loaded."""
        cluster, library = self.library.cluster, self.library
        cluster.restart_node(self.node)
        state = library.state()
        gone: dict[str, int | None] = {key: None for key in state if ".gi." in key}
        library.change(gone | {key: 0 for key in state if key.endswith(".computemode")} or {"calls": 0})
        for number in (key.rpartition(".")[2] for key in state if ".vdev." in key):
            cluster.node_exec(self.node, "mknod", f"/dev/vdavinci{number}", "c", "236", number)
        self.load_driver()

    def end_faults(self) -> None:
        """Every call works again, and the cards have no fault."""
        state = self.library.state()
        faults = {key: None for key in state if {"fault", "kill", "event"} & set(key.split("."))}
        healthy = {key: 0 for key in state if key.endswith((".field.230", ".alarm"))}
        self.library.change({"kill": None, **faults, **healthy})

    def services(self) -> list[str]:
        """The services that the driver has started on the node."""
        command = ("systemctl", "list-units", "--plain", "--no-legend", "lode.dev-*")
        return [line.split()[0] for line in self.library.cluster.node_exec(self.node, *command).stdout.splitlines()]

    def remove(self) -> None:
        """Remove the library's state, the kernel's files and the device files: the node has no cards any more."""
        devices = " ".join(f"/dev/{name}" for name in self.devices)
        script = f"rm -rf {self.library.path}* /{_KERNEL} {devices} /run/lode.dev"
        self.library.cluster.node_exec(self.node, "sh", "-c", script)


def _bus_ids(state: Mapping[str, str], card: str) -> dict[int, str]:
    found = {key.split(".")[1]: value for key, value in state.items() if key.startswith(card) and key.endswith(".pci")}
    return {int(number): value for number, value in found.items()}


def _numbers(text: str) -> tuple[int, int]:
    major, minor = map(int, text.split())
    return major, minor
