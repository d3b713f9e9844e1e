"""Device files of the host."""

import os
import stat
from pathlib import Path

import pytest

from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.edits import DeviceNode
from kubeletplugin.hardware.nvidia.root import DriverRoot


def test_a_device_file_keeps_its_owner_and_mode(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "davinci0", stat.S_IFCHR | 0o600, os.makedev(236, 0))
    except PermissionError:
        pytest.skip("needs the right to create device nodes")
    os.chown(tmp_path / "davinci0", 1000, 1001)
    (tmp_path / "davinci0").chmod(0o660)
    expected = DeviceNode("/dev/davinci0", "/dev/davinci0", 236, 0, file_mode=0o660, uid=1000, gid=1001)
    assert DeviceFiles(str(tmp_path)).find("davinci0") == expected
    (tmp_path / "dev").mkdir()
    (tmp_path / "davinci0").rename(tmp_path / "dev/davinci0")
    assert DriverRoot("/", str(tmp_path)).device("/dev/davinci0") == expected


@pytest.mark.parametrize(
    ("owner", "kept"), [((0o020600, 0, 0), (None, None, None)), ((0o020640, 0, 44), (0o640, None, 44))]
)
def test_what_root_owns_is_its_containers_users(
    owner: tuple[int, int, int], kept: tuple[int | None, int | None, int | None]
) -> None:
    node = DeviceNode("/dev/a", "/dev/a", 1, 3).owned_as(*owner)
    assert (node.file_mode, node.uid, node.gid) == kept


def test_a_character_device_is_found_with_its_numbers() -> None:
    assert DeviceFiles().find("null") == DeviceNode("/dev/null", "/dev/null", 1, 3)
    assert DeviceFiles().find("null", "davinci0") == DeviceNode("/dev/davinci0", "/dev/null", 1, 3)


def test_what_is_no_character_device_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "davinci0").write_text("")
    assert DeviceFiles(str(tmp_path)).find("davinci0") is None
    assert DeviceFiles(str(tmp_path)).find("davinci1") is None
    assert DeviceFiles(str(tmp_path / "absent")).find("davinci0") is None


def test_files_are_found_by_their_numbers(tmp_path: Path) -> None:
    for name in ("davinci10", "davinci2", "davinci_manager", "vdavinci100", "davinci"):
        (tmp_path / name).write_text("")
    assert DeviceFiles(str(tmp_path)).numbers("davinci") == (2, 10)
    assert DeviceFiles(str(tmp_path / "absent")).numbers("davinci") == ()
