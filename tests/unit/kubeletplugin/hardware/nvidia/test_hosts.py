"""On every host the driver's libraries are found, or it is said what to set; a hook is written where it can run."""

import errno
import os
from pathlib import Path
from typing import Any, Final

import pytest

from cli.doctor.node_checks import check_node
from cli.doctor.node_look import observe_node
from driver.errors import LodeError, TransientFault
from driver.settings import Settings
from kubeletplugin.hardware import HardwareRefusal
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.nvidia.driverfiles import FoundFiles, Linker
from kubeletplugin.hardware.nvidia.root import DriverRoot
from tests.fakes.nvml.machine import SHELL

V: Final = "580.126.09"
FILES: Final = (f"libcuda.so.{V}", f"libnvidia-ml.so.{V}", f"libnvidia-ptxjitcompiler.so.{V}", "libnvidia-ml.so.1")
HOSTS = {
    "Talos": ("/", "usr/local/glibc/usr/lib"),
    "Talos, its own root": ("/usr/local/glibc", "usr/local/glibc/usr/lib"),
    "Bottlerocket before 2026": ("/", "usr/lib/nvidia/tesla"),
    "Bottlerocket": ("/", "usr/lib"),
    "NixOS": ("/run/opengl-driver", "run/opengl-driver/lib"),
    "GKE COS": ("/home/kubernetes/bin/nvidia", "home/kubernetes/bin/nvidia/lib64"),
    "JetPack 7": ("/", "usr/lib/aarch64-linux-gnu/nvidia"),
    "Debian 13": ("/", "usr/lib/x86_64-linux-gnu/nvidia/current"),
    "the GPU operator": ("/run/nvidia/driver", "run/nvidia/driver/usr/lib/x86_64-linux-gnu"),
}


def touch(host: Path, *paths: str) -> None:
    for path in paths:
        (host / path).parent.mkdir(parents=True, exist_ok=True)
        (host / path).touch()


def edits(host: Path, root: str = "/", linker: Linker = "hook", folders: tuple[str, ...] = ()) -> Edits:
    here = DriverRoot(root, f"{host}{root}".rstrip("/"), str(host / "dev"), folders)
    return FoundFiles(here, DriverRoot("/", str(host)), linker).edits(V)


def settings(root: str, **nvidia: object) -> Settings:
    return Settings.model_validate({"kubeletplugin": {"nvidia": {"driverRoot": root, **nvidia}}})


def found(host: Path, check: str, given: Settings) -> str:
    """What ``lode doctor node`` says."""
    card = host / "sys/bus/pci/devices/0000:18:00.0"
    if not card.exists():
        touch(host, *(f"{card.relative_to(host)}/{name}" for name in ("vendor", "class")))
        (card / "vendor").write_text("0x10de")
        (card / "class").write_text("0x030200")
    return next(
        one.status
        for one in check_node(observe_node(given, str(host)))
        if (one.check, one.subject) == (check, "NVIDIA")
    )


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("shell", [True, False], ids=["a shell", "no shell"])
def test_the_libraries_of_a_distribution_are_found(tmp_path: Path, name: str, shell: bool) -> None:
    root, folder = HOSTS[name]
    touch(tmp_path, *(f"{folder}/{file}" for file in FILES), *(SHELL if shell else ()))
    assert found(tmp_path, "driver", settings(root)) == "ok"
    assert found(tmp_path, "hook", settings(root)) == ("ok" if shell else "failed")
    if not shell:
        with pytest.raises(HardwareRefusal, match=r"no /bin/sh, tr, .* kubeletplugin\.nvidia\.linker to environment"):
            edits(tmp_path, root)
    given = edits(tmp_path, root, "hook" if shell else "environment")
    assert {mount.host_path for mount in given.mounts} == {f"/{folder}/{file}" for file in FILES[:3]}
    assert bool(given.hooks) is shell
    assert found(tmp_path, "hook", settings(root, linker="environment")) == "ok"
    assert found(tmp_path, "hook", settings(root, nvidiaCtk="/usr/local/bin/nvidia-ctk")) == "ok"


@pytest.mark.parametrize("lacking", SHELL)
def test_a_hook_that_cannot_run_is_refused(tmp_path: Path, lacking: str) -> None:
    touch(tmp_path, *(f"usr/lib64/{file}" for file in FILES), *(path for path in SHELL if path != lacking))
    with pytest.raises(HardwareRefusal, match=lacking.rpartition("/")[2]):
        edits(tmp_path)
    assert found(tmp_path, "hook", settings("/")) == "failed"


def test_libraries_elsewhere_are_found_where_the_setting_says(tmp_path: Path) -> None:
    touch(tmp_path, *(f"opt/odd/{file}" for file in FILES), *SHELL)
    with pytest.raises(LodeError, match="libraryFolders"):
        edits(tmp_path)
    assert found(tmp_path, "driver", settings("/")) == "failed"
    assert len({mount.host_path for mount in edits(tmp_path, folders=("/opt/odd/",)).mounts}) == 3
    assert found(tmp_path, "driver", settings("/", libraryFolders=["/opt/odd"])) == "ok"


def test_links_of_the_host_are_followed_on_the_host(tmp_path: Path) -> None:
    """NixOS has the driver in a store, and links to it; programs are links as well."""
    touch(tmp_path, *(f"nix/store/d1-driver/lib/{file}" for file in FILES[:3]), "nix/store/c0/bin/busybox")
    links = {
        "run/opengl-driver": "/nix/store/x9-graphics",
        "bin/sh": "/nix/store/c0/bin/busybox",
        "bin/tr": "sh",
        "bin/grep": "sh",
        "bin/head": "sh",
        "bin/sed": "sh",
        "nix/store/d1-driver/lib/libnvidia-ml.so.1": FILES[1],
        **{f"nix/store/x9-graphics/lib/{file}": f"/nix/store/d1-driver/lib/{file}" for file in FILES},
    }
    for path, target in links.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).symlink_to(target)
    assert found(tmp_path, "driver", settings("/run/opengl-driver")) == "ok"
    assert {mount.host_path for mount in edits(tmp_path, "/run/opengl-driver").mounts} == {
        f"/run/opengl-driver/lib/{file}" for file in FILES[:3]
    }
    root = DriverRoot("/run/opengl-driver", f"{tmp_path}/run/opengl-driver")
    assert root.found("/lib/libnvidia-ml.so.1") == tmp_path / f"nix/store/d1-driver/lib/{FILES[1]}"


def test_links_of_a_driver_container_are_followed_in_it(tmp_path: Path) -> None:
    root = tmp_path / "run/nvidia/driver"
    touch(tmp_path, "usr/lib/a", "run/nvidia/driver/usr/lib/a")
    (root / "usr/lib/libnvidia-ml.so.1").symlink_to("/usr/lib/a")
    assert DriverRoot("/run/nvidia/driver", str(root)).found("/usr/lib/libnvidia-ml.so.1") == root / "usr/lib/a"


def test_without_a_hook_the_links_are_mounted_and_a_variable_names_the_folders(tmp_path: Path) -> None:
    touch(tmp_path, *(f"usr/lib64/{file}" for file in FILES[:3]), "usr/lib64/libnvidia-ml.so.390.1")
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to(FILES[1])
    (tmp_path / "usr/lib64/libnvidia-ml.so").symlink_to("libnvidia-ml.so.1")
    given = edits(tmp_path, linker="environment")
    assert given.env == (("LD_LIBRARY_PATH", "/usr/lib64"),)
    folder, (cuda, nvml, compiler, soname) = "/usr/lib64", FILES
    assert {mount.container_path: mount.host_path for mount in given.mounts} == {
        **{f"{folder}/{name}": f"{folder}/{cuda}" for name in (cuda, "libcuda.so.1", "libcuda.so")},
        **{f"{folder}/{name}": f"{folder}/{nvml}" for name in (nvml, soname, "libnvidia-ml.so")},
        f"{folder}/{compiler}": f"{folder}/{compiler}",
    }
    assert not given.hooks


@pytest.mark.parametrize("question", ["exists", "library", "libraries", "binary", "links_to", "device"])
def test_a_file_of_the_host_that_cannot_be_looked_at_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    root = DriverRoot("/", str(tmp_path))

    def fails(path: str | Path, **_: Any) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    path = {"links_to": "/usr/lib64/libcuda.so.1", "device": "/dev/nvidia0"}.get(question, "/usr/lib64")
    # Only meanwhile: what removes the folders of tests looks at files, too.
    with monkeypatch.context() as patch:
        for owner, look in ((os, "lstat"), (Path, "lstat"), (Path, "stat")):
            patch.setattr(owner, look, fails)
        with pytest.raises(TransientFault, match="of the host cannot be looked at"):
            getattr(root, question)(path)
