"""HAMi-core keeps programs within their share of a real card. Needs root, a card, and HAMi-core's library.

``LODE_HAMI_LIBRARY`` is the library, and ``LODE_DRIVER_ROOT`` the root of the driver's files, if it is not ``/``. The
programs see the files that a container would, in a mount namespace of their own.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from driver.clock import SystemClock
from driver.observe import logger
from driver.parameters import GpuConfig
from driver.settings import NvidiaSettings
from kubeletplugin.hardware import Hardware, Share, Use
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.nvidia.assembly import NvidiaNode, nvidia_hardware
from kubeletplugin.hardware.nvidia.commands import SystemCommands
from kubeletplugin.hardware.nvidia.root import DriverRoot
from kubeletplugin.hardware.nvidia.sharing.region import read_region

ROOT = DriverRoot(os.environ.get("LODE_DRIVER_ROOT", "/"))
LIBRARY = os.environ.get("LODE_HAMI_LIBRARY", "")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(ROOT.library("libcuda.so.1") is None, reason="no libcuda.so.1: no driver of NVIDIA's cards"),
    pytest.mark.skipif(not LIBRARY, reason="LODE_HAMI_LIBRARY does not say where HAMi-core's library is"),
]
SHARE_MIB = 4096
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
device, context, free, total, place = (ctypes.c_int(), ctypes.c_void_p(), *(ctypes.c_size_t() for _ in range(3)))
for call in (
    lambda: cuda.cuInit(0),
    lambda: cuda.cuDeviceGet(ctypes.byref(device), 0),
    lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    lambda: cuda.cuCtxSetCurrent(context),
    lambda: cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
):
    assert call() == 0
done = [cuda.cuMemAlloc_v2(ctypes.byref(place), int(mib) << 20) == 0 for mib in sys.argv[2:]]
print(total.value >> 20, *map(int, done))
"""


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    settings = NvidiaSettings(run_folder=str(tmp_path / "run"), hami_library=LIBRARY)
    node = NvidiaNode(DriverRoot(), ROOT, "lode-test", settings)
    return nvidia_hardware(node, SystemCommands(), logger("test"), SystemClock())


def share(hardware: Hardware) -> Edits:
    card = hardware.cards()[0]
    config = GpuConfig(sharing="hamiCore")
    use = Use("claim", card, share=Share("a", SHARE_MIB, 0), config=config, cards_of_request=(card.uuid,))
    for action in hardware.actions(use, ()):
        hardware.ensure(action)
    return hardware.edits(use, {})


def said(edits: Edits, tmp_path: Path, *mib: int, knows: bool = True, user: int = 0) -> list[int]:
    """What a program in a container says: the memory of the card in MiB, and whether it got each of these amounts.

    Args:
        knows: whether it has the environment of its container.
    """
    library = str(ROOT.seen(ROOT.library("libcuda.so.1") or ""))
    lines = ["mount -t tmpfs -o mode=1777 none /tmp", "mkdir -p /usr/local/vgpu"]
    for mount in edits.mounts:
        inside = mount.container_path
        if inside.startswith(("/tmp/", "/usr/local/vgpu/")):
            made = f"mkdir -p {inside}" if Path(mount.host_path).is_dir() else f"touch {inside}"
            lines.append(f"{made} && mount --bind {mount.host_path} {inside}")
    environment = [f"{name}={value}" for name, value in edits.env] if knows else []
    # The container has the library in /etc/ld.so.preload, which no environment changes.
    environment.append("LD_PRELOAD=/usr/local/vgpu/libvgpu.so")
    command = ["env", "-i", *environment, sys.executable, "-", library, *map(str, mib)]
    if user:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    lines.append(f"exec {shlex.join(command)}")
    # The folder of the test is below /tmp, so what is mounted from there must be opened before.
    script = "set -e\nmkdir -p /run/lode-test && mount --rbind /tmp /run/lode-test\n" + "\n".join(
        line.replace(f"--bind {tmp_path}", f"--bind /run/lode-test{str(tmp_path).removeprefix('/tmp')}")
        for line in lines
    )
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        input=PROGRAM,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.splitlines()[-1].split()]


def test_a_program_gets_the_memory_of_its_share_and_no_more(hardware: Hardware, tmp_path: Path) -> None:
    assert said(share(hardware), tmp_path, 1024, SHARE_MIB) == [SHARE_MIB, True, False]


@pytest.mark.parametrize("user", [0, 1000], ids=["root", "another user"])
def test_a_program_without_the_environment_of_its_container_gets_no_more(
    hardware: Hardware, tmp_path: Path, user: int
) -> None:
    edits = share(hardware)
    assert said(edits, tmp_path, 1024, SHARE_MIB, knows=False, user=user) == [SHARE_MIB, True, False]
    assert said(edits, tmp_path, 1024, SHARE_MIB) == [SHARE_MIB, True, False], "whoever comes first"


def test_what_programs_count_is_read(hardware: Hardware, tmp_path: Path) -> None:
    said(share(hardware), tmp_path, 1024)
    card = hardware.cards()[0]
    (use,) = read_region(tmp_path / "run/hami" / card.uuid / "claim")
    assert (use.uuid, use.limit_bytes, use.memory_bytes) == (card.uuid, SHARE_MIB << 20, 0)
