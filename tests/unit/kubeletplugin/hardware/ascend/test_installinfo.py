"""DCMI finds the host's file that says where the driver is."""

from pathlib import Path

import pytest

from kubeletplugin.hardware.ascend.installinfo import link_install_info


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc/ascend_install.info"


def on_host(host: Path, file: Path) -> Path:
    path = host / str(file).lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_the_hosts_file_is_found_whenever_it_is_installed_or_replaced(tmp_path: Path, file: Path) -> None:
    host = tmp_path / "host"
    for _ in range(2):
        link_install_info(str(host), str(file))
        assert not file.exists()
    for text in ("first", "second"):
        new = on_host(host, file).with_suffix(".new")
        new.write_text(text)
        new.replace(on_host(host, file))
        assert file.read_text() == text


def test_a_file_that_is_here_stays(tmp_path: Path, file: Path) -> None:
    file.write_text("own")
    on_host(tmp_path / "host", file).write_text("host")
    link_install_info(str(tmp_path / "host"), str(file))
    assert file.read_text() == "own"


def test_the_root_itself_needs_no_link(file: Path) -> None:
    link_install_info("/", str(file))
    assert not file.is_symlink()
