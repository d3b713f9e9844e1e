"""The host's files are seen below the folder where its root is mounted, and links lead inside it."""

import os
from pathlib import Path

import pytest

from kubeletplugin.hardware.deviceplugin.hostfiles import HostNode, SystemHostTree


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for folder in ("dev/dri/by-path", "opt/amd", "etc/cdi"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt/amd/lib.so").write_text("content")
    (tmp_path / "opt/link").symlink_to("/opt/amd")
    (tmp_path / "opt/loop").symlink_to("/opt/loop")
    (tmp_path / "opt/up").symlink_to("../../../../opt/amd/lib.so")
    return tmp_path


def test_an_absolute_link_leads_below_the_same_root(host: Path) -> None:
    files = SystemHostTree(str(host))
    assert files.exists("/opt/link/lib.so")
    assert files.exists("/opt/up"), "no link leads above the root"
    assert files.read("/opt/link/lib.so", 7) == b"content"
    assert files.names("/opt/link") == ("lib.so",)


def test_what_is_not_there_is_no_error(host: Path) -> None:
    files = SystemHostTree(str(host))
    assert not files.exists("/opt/missing/x")
    assert not files.exists("/opt/loop")
    assert (files.names("/opt/missing"), files.nodes("/dev/missing")) == ((), ())
    assert files.names("/opt/amd/lib.so") == ()


@pytest.mark.timeout(20)
def test_what_is_too_long_or_no_file_is_not_read_and_not_waited_for(host: Path) -> None:
    os.mkfifo(host / "etc/cdi/pipe.yaml")
    files = SystemHostTree(str(host))
    for path, said in (("/opt/amd/lib.so", "more than 6 bytes"), ("/etc/cdi/pipe.yaml", "no regular file")):
        with pytest.raises(OSError, match=said):
            files.read(path, 6)


def test_a_file_is_no_device_node(host: Path) -> None:
    assert SystemHostTree(str(host)).nodes("/opt/amd/lib.so") == ()


def test_a_device_node_is_found_behind_links(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    assert SystemHostTree("/").nodes(str(link)) == (HostNode("", "/dev/null", "c", 1, 3),)


def test_a_node_is_no_link_and_may_be_a_named_pipe(host: Path) -> None:
    os.mkfifo(host / "dev/pipe")
    (host / "dev/pipe").chmod(0o620)
    (host / "dev/link").symlink_to("pipe")
    (host / "devices").symlink_to("/dev")
    files, owner = SystemHostTree(str(host)), (os.getuid(), os.getgid())
    assert files.node("/devices/pipe") == HostNode("", "/dev/pipe", "p", 0, 0, 0o620, *owner)
    assert (files.node("/dev/link"), files.node("/dev"), files.node("/dev/none/a")) == (None, None, None)
    assert SystemHostTree("/").node("/dev/null") == HostNode("", "/dev/null", "c", 1, 3)
    assert files.nodes("/dev/pipe") == ()


def test_a_folder_is_all_device_nodes_below_it_without_links(host: Path) -> None:
    try:
        os.mknod(host / "dev/dri/card0", 0o666 | 0o020000, os.makedev(1, 3))
        os.mknod(host / "dev/dri/by-path/disk", 0o666 | 0o060000, os.makedev(7, 1))
    except PermissionError:
        pytest.skip("needs the right to create device nodes")
    (host / "dev/dri/by-path/link").symlink_to("../card0")
    (host / "dev/dri/card0").chmod(0o660)
    os.chown(host / "dev/dri/card0", 0, 44)
    (host / "dev/dri/by-path/disk").chmod(0o666)
    assert SystemHostTree(f"{host}/").nodes("/dev/dri") == (
        HostNode("by-path/disk", "/dev/dri/by-path/disk", "b", 7, 1),
        HostNode("card0", "/dev/dri/card0", "c", 1, 3, 0o660, 0, 44),
    )
