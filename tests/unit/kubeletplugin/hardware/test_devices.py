"""Device files of the host."""

from pathlib import Path

from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.edits import DeviceNode


def test_a_character_device_is_found_with_its_numbers() -> None:
    assert DeviceFiles().find("null") == DeviceNode("/dev/null", "/dev/null", 1, 3)
    assert DeviceFiles().find("null", "davinci0") == DeviceNode("/dev/davinci0", "/dev/null", 1, 3)


def test_what_is_no_character_device_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "davinci0").write_text("")
    assert DeviceFiles(str(tmp_path)).find("davinci0") is None
    assert DeviceFiles(str(tmp_path)).find("davinci1") is None
    assert DeviceFiles(str(tmp_path / "absent")).find("davinci0") is None
