"""What a container gets of the driver, and that a card without device nodes is not published."""

import json
import subprocess
from pathlib import Path

import pytest

from driver.errors import TransientFault
from driver.parameters import GpuConfig
from kubeletplugin.hardware import Share, Use
from kubeletplugin.hardware.nvidia.driverfiles import HOOK
from kubeletplugin.hardware.nvidia.root import DriverRoot
from tests.fakes.nvml.machine import LIBRARIES, VERSION
from tests.fakes.nvml.models import H100
from tests.unit.kubeletplugin.hardware.nvidia.bench import NvidiaBench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaBench:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    return NvidiaBench(tmp_path, H100, 2)


def test_a_container_gets_the_nodes_of_its_card_the_libraries_the_programs_and_the_sockets(bench: NvidiaBench) -> None:
    hardware = bench.start()
    edits = hardware.edits(Use("claim", hardware.cards()[1]), {})
    assert [(node.path, node.host_path, node.major, node.minor) for node in edits.device_nodes] == [
        ("/dev/nvidiactl", "/dev/nvidiactl", 195, 255),
        ("/dev/nvidia-uvm", "/dev/nvidia-uvm", 510, 0),
        ("/dev/nvidia-uvm-tools", "/dev/nvidia-uvm-tools", 510, 1),
        ("/dev/nvidia1", "/dev/nvidia1", 195, 1),
    ]
    folder = f"/{LIBRARIES}"
    assert {mount.container_path: mount.host_path for mount in edits.mounts} == {
        f"{folder}/libcuda.so.{VERSION}": f"{folder}/libcuda.so.{VERSION}",
        f"{folder}/libcuda.so.1": f"{folder}/libcuda.so.{VERSION}",
        f"{folder}/libcuda.so": f"{folder}/libcuda.so.{VERSION}",
        f"{folder}/libnvidia-ml.so.{VERSION}": f"{folder}/libnvidia-ml.so.{VERSION}",
        f"{folder}/libnvidia-ptxjitcompiler.so.{VERSION}": f"{folder}/libnvidia-ptxjitcompiler.so.{VERSION}",
        "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi",
        "/usr/bin/nvidia-cuda-mps-control": "/usr/bin/nvidia-cuda-mps-control",
        "/usr/bin/nvidia-cuda-mps-server": "/usr/bin/nvidia-cuda-mps-server",
        "/usr/bin/nvidia-persistenced": "/usr/bin/nvidia-persistenced",
        "/run/nvidia-persistenced/socket": "/run/nvidia-persistenced/socket",
    }
    assert all({"ro", "noexec"} & set(mount.options) for mount in edits.mounts)
    assert edits.env == (("NVIDIA_VISIBLE_DEVICES", "void"),)


def test_files_of_a_driver_container_are_mounted_from_its_root(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libcuda.so.1.2").touch()
    root = DriverRoot("/run/nvidia/driver", str(tmp_path))
    assert root.libraries("1.2") == ("/usr/lib64/libcuda.so.1.2",)
    assert root.on_host("/usr/lib64/libcuda.so.1.2") == "/run/nvidia/driver/usr/lib64/libcuda.so.1.2"


def test_device_nodes_are_character_devices(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert DriverRoot("/missing", dev=str(tmp_path)).device("/dev/nvidia0") is None
    node = DriverRoot("/missing").device("/dev/null")
    assert node is not None
    assert (node.host_path, node.major, node.minor) == ("/dev/null", 1, 3)


@pytest.mark.parametrize("missing", ["nvidiactl", "nvidia-uvm", "nvidia1"])
def test_a_card_is_published_only_while_its_device_nodes_exist(bench: NvidiaBench, missing: str) -> None:
    hardware = bench.start()
    card = hardware.cards()[1]
    node = bench.machine.host / "dev" / missing
    text = node.read_text()
    node.unlink()
    assert card.name not in [each.name for each in hardware.cards()]
    assert f"/dev/{missing} is missing" in hardware.observe(card).excluded["whole"]
    with pytest.raises(TransientFault, match="is missing"):
        hardware.edits(Use("claim", card), {})
    node.write_text(text)
    assert card in hardware.cards()


def test_a_driver_without_libraries_prepares_nothing(bench: NvidiaBench) -> None:
    hardware = bench.start()
    (card, _) = hardware.cards()
    for library in (bench.machine.host / LIBRARIES).glob(f"*.{VERSION}"):
        library.unlink()
    with pytest.raises(TransientFault, match="driverRoot"):
        hardware.edits(Use("claim", card), {})


def test_the_hook_needs_no_file_on_the_node(bench: NvidiaBench) -> None:
    hardware = bench.start()
    (hook,) = hardware.edits(Use("claim", hardware.cards()[0]), {}).hooks
    assert (hook.path, hook.stage) == ("/bin/sh", "createContainer")
    assert hook.args == ("sh", "-c", HOOK, "linker", f"/{LIBRARIES}")


@pytest.mark.parametrize("root", ["rootfs", "", "absolute"])
def test_the_hook_runs_the_linker_inside_the_containers_root(tmp_path: Path, root: str) -> None:
    bundle, rootfs = tmp_path / "bundle", tmp_path / "elsewhere" if root == "absolute" else tmp_path / "bundle/rootfs"
    (rootfs / "etc").mkdir(parents=True)
    bundle.mkdir(exist_ok=True)
    config = {
        "annotations": {"root": '"root": {"path": "/tmp"}'},
        "hooks": {"createContainer": [{"path": "/bin/sh", "args": ["sh", "-c", HOOK]}]},
        "root": {"path": str(rootfs) if root else "rootfs"},
    }
    if root == "":
        del config["root"]
    (bundle / "config.json").write_text(json.dumps(config, indent=2))
    program = tmp_path / "ldconfig"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    script = HOOK.replace("/sbin/ldconfig.real /usr/sbin/ldconfig.real /sbin/ldconfig", str(program), 1)
    state = json.dumps({"ociVersion": "1.0.2", "bundle": str(bundle), "annotations": {"bundle": 'a "bundle": "/tmp"'}})
    done = subprocess.run(
        ["sh", "-c", script, "linker", "/usr/lib64"],
        input=state,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"-r {rootfs} /usr/lib64\n"


def test_the_hook_leaves_a_root_without_etc_alone(tmp_path: Path) -> None:
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "config.json").write_text('{"root": {"path": "rootfs"}}')
    state = json.dumps({"bundle": str(tmp_path)})
    done = subprocess.run(["sh", "-c", HOOK], input=state, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""


def test_an_operator_who_prefers_the_toolkit_gets_the_files_that_it_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    bench = NvidiaBench(tmp_path, H100, 1, toolkit="/usr/bin/nvidia-ctk")
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64"],
            "deviceNodes": [{"path": "/dev/nvidiactl"}],
            "mounts": [
                {"hostPath": f"{bench.machine.host}/usr/lib64/libcuda.so.1", "containerPath": "/usr/lib64/libcuda.so.1"}
            ],
            "hooks": [
                {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["hook", "update-ldcache"]}
            ],
        },
    }
    bench.machine.commands.answer("nvidia-ctk", json.dumps(spec))
    bench.machine.file("usr/bin/nvidia-cdi-hook")
    hardware = bench.start()
    (card,) = hardware.cards()
    edits = hardware.edits(Use("claim", card), {})
    assert edits.env == (("NVIDIA_VISIBLE_DEVICES", "void"), ("NVIDIA_CTK_LIBCUDA_DIR", "/usr/lib64"))
    assert [mount.host_path for mount in edits.mounts] == ["/usr/lib64/libcuda.so.1"]
    assert [hook.args for hook in edits.hooks] == [("hook", "update-ldcache")]
    assert [node.path for node in edits.device_nodes][-1] == "/dev/nvidia0"
    hardware.edits(Use("other", card), {})
    assert len([line for line in bench.machine.commands.log() if "cdi generate" in line]) == 1


@pytest.mark.parametrize("gone", ["usr/local/nvidia/toolkit/nvidia-cdi-hook", "usr/lib64/libcuda.so.1"])
def test_the_toolkit_is_asked_again_when_a_file_of_its_answer_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    bench = NvidiaBench(tmp_path, H100, 1, toolkit="/usr/bin/nvidia-ctk")

    def answer(hook: str, library: str) -> None:
        bench.machine.file(hook)
        bench.machine.file(library)
        hooks = [{"hookName": "createContainer", "path": f"/{hook}"}]
        mounts = [{"hostPath": f"/{path}", "containerPath": f"/{path}"} for path in (library, "never/there")]
        bench.machine.commands.answer("nvidia-ctk", json.dumps({"containerEdits": {"hooks": hooks, "mounts": mounts}}))

    def paths() -> list[str]:
        edits = hardware.edits(Use("claim", hardware.cards()[0]), {})
        return [edits.hooks[0].path, edits.mounts[0].host_path]

    answer("usr/local/nvidia/toolkit/nvidia-cdi-hook", "usr/lib64/libcuda.so.1")
    hardware = bench.start()
    before = ["/usr/local/nvidia/toolkit/nvidia-cdi-hook", "/usr/lib64/libcuda.so.1"]
    assert paths() == before
    answer("usr/bin/nvidia-cdi-hook", "usr/lib/libcuda.so.1")
    assert paths() == before, "they are still there"
    (bench.machine.host / gone).unlink()
    bench.machine.commands.fail("nvidia-ctk")
    for _ in range(2):
        with pytest.raises(TransientFault):
            paths()
    bench.machine.commands.fail("nvidia-ctk", fails=False)
    assert paths() == ["/usr/bin/nvidia-cdi-hook", "/usr/lib/libcuda.so.1"]
    asked = len(bench.machine.commands.log())
    paths()
    assert len(bench.machine.commands.log()) == asked


def test_a_toolkit_that_answers_something_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    bench = NvidiaBench(tmp_path, H100, 1, toolkit="/usr/bin/nvidia-ctk")
    bench.machine.file("usr/bin/nvidia-cdi-hook")
    hardware = bench.start()
    with pytest.raises(TransientFault, match="nvidia-ctk: does not answer with a CDI spec"):
        hardware.edits(Use("claim", hardware.cards()[0], share=Share("a", 1, 1), config=GpuConfig()), {})


@pytest.mark.parametrize(
    ("toolkit", "there", "said"),
    [
        ("/usr/bin/nvidia-ctk", "/usr/bin", "/usr/bin"),
        ("/usr/local/nvidia/toolkit/nvidia-ctk", "/usr/local/nvidia/toolkit", "/usr/local/nvidia/toolkit"),
        ("/opt/toolkit/nvidia-ctk", "/opt/toolkit", "/opt/toolkit"),
        ("/opt/toolkit/nvidia-ctk", "/usr/local/nvidia/toolkit", "/usr/local/nvidia/toolkit"),
    ],
)
def test_the_toolkit_is_told_where_its_hook_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolkit: str, there: str, said: str
) -> None:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml"))
    bench = NvidiaBench(tmp_path, H100, 1, toolkit=toolkit)
    bench.machine.commands.answer("nvidia-ctk", json.dumps({"containerEdits": {}}))
    hardware = bench.start()
    use = Use("claim", hardware.cards()[0])
    with pytest.raises(TransientFault, match=r"no nvidia-cdi-hook at .*; set kubeletplugin\.nvidia\.cdiHook"):
        hardware.edits(use, {})
    bench.machine.file(f"{there[1:]}/nvidia-cdi-hook")
    hardware.edits(use, {})
    (command,) = (line for line in bench.machine.commands.log() if "cdi generate" in line)
    assert f"--nvidia-cdi-hook-path={said}/nvidia-cdi-hook" in command


def test_a_container_gets_what_tells_loaders_of_the_driver_and_the_firmware(bench: NvidiaBench) -> None:
    more = {
        "etc/vulkan/icd.d/nvidia_icd.json",
        "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
        "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
        "usr/share/nvidia/nvoptix.bin",
        "usr/bin/nvidia-imex",
        "usr/bin/nvidia-imex-ctl",
        f"{LIBRARIES}/libnvidia-egl-gbm.so.1.1.2",
        f"{LIBRARIES}/libnvidia-nvvm.so.{VERSION}",
        f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin",
    }
    hardware = bench.start()
    use = Use("claim", hardware.cards()[0])
    before = {mount.container_path for mount in hardware.edits(use, {}).mounts}
    for path in more:
        bench.machine.file(path)
    after = {mount.container_path: mount for mount in hardware.edits(use, {}).mounts}
    assert after.keys() - before == {f"/{path}" for path in more}
    assert all("ro" in after[f"/{path}"].options for path in more)
