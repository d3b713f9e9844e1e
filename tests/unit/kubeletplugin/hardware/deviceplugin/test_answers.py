"""Answers of device plugins become edits that give a container what the kubelet would have given it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.deviceplugins import ResourceSettings
from kubeletplugin.hardware.deviceplugin.answers import (
    MOST_BYTES,
    AnsweredDevice,
    AnsweredMount,
    PluginAnswer,
    edits_from,
    from_text,
    to_text,
)
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.port import HardwareRefusal, Unsupported
from tests.fakes.deviceplugin.host_tree import FakeHostTree

RESOURCE, CARD = "amd.com/gpu", "amd.com/gpu=0"
SPEC = {
    "cdiVersion": "0.7.0",
    "kind": "amd.com/gpu",
    "containerEdits": {"env": ["COMMON=1"]},
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "env": ["CARD=0"],
                "deviceNodes": [{"path": "/dev/kfd", "permissions": "rw", "uid": 5}],
                "mounts": [{"hostPath": "/opt/amd", "containerPath": "/opt/amd", "options": ["ro", "bind"]}],
                "hooks": [{"hookName": "createContainer", "path": "/bin/hook", "args": ["hook", "x"]}],
                "additionalGids": [44],
            },
        }
    ],
}
FILES = FakeHostTree(
    ["/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128"],
    {"/opt/amd/lib.so": b"", "/var/run/cdi/amd.json": json.dumps(SPEC).encode(), "/etc/cdi/broken.yaml": b"}{"},
    {"/dev/dri/by-path/pci-1": "/dev/dri/card0"},
)


def edits(files: FakeHostTree = FILES, *, settings: ResourceSettings | None = None, **answer: Any) -> Edits:
    return edits_from(PluginAnswer(**answer), RESOURCE, settings or ResourceSettings(), files)


def device(host: str, container: str = "", permissions: str = "rw") -> AnsweredDevice:
    return AnsweredDevice(container or host, host, permissions)


def test_variables_mounts_and_devices_are_taken_over() -> None:
    assert edits(
        env={"B": "2", "A": "1"},
        mounts=(AnsweredMount("/usr/amd", "/opt/amd", read_only=True), AnsweredMount("/rw", "/opt/amd")),
        devices=(device("/dev/kfd", "/dev/other", "mrw"),),
    ) == Edits(
        (("A", "1"), ("B", "2")),
        (DeviceNode("/dev/other", "/dev/kfd", 240, 0, "rwm"),),
        (
            Mount("/opt/amd", "/usr/amd", ("rbind", "rprivate", "ro")),
            Mount("/opt/amd", "/rw", ("rbind", "rprivate", "rw")),
        ),
    )


def test_a_link_is_the_device_behind_it() -> None:
    (node,) = edits(devices=(device("/dev/dri/by-path/pci-1"),)).device_nodes
    assert (node.path, node.host_path, node.minor) == ("/dev/dri/by-path/pci-1", "/dev/dri/card0", 1)


def test_a_folder_is_all_devices_in_it() -> None:
    nodes = edits(devices=(device("/dev/dri", "/dev/gpu"),)).device_nodes
    assert [node.path for node in nodes] == ["/dev/gpu/card0", "/dev/gpu/renderD128"]


@pytest.mark.parametrize(
    ("owner", "written"),
    [
        ((0o666, 0, 0), (None, None, None)),
        ((0o600, 0, 0), (None, None, None)),
        ((0o640, 0, 1234), (0o640, None, 1234)),
        ((0o660, 1000, 1000), (0o660, 1000, 1000)),
    ],
)
def test_a_device_keeps_the_owner_that_is_not_root(
    owner: tuple[int, int, int], written: tuple[int | None, ...]
) -> None:
    """Runtimes take the mode of the host's node, and give it to root or to the user of the container."""
    (node,) = edits(FakeHostTree(["/dev/kfd"], owner=owner), devices=(device("/dev/kfd"),)).device_nodes
    assert (node.file_mode, node.uid, node.gid) == written


def test_of_two_answered_devices_or_mounts_at_one_place_the_first_counts() -> None:
    found = edits(
        devices=(device("/dev/kfd", "/dev/x", "r"), device("/dev/dri/card0", "/dev/x", "w")),
        mounts=(AnsweredMount("/x", "/opt/amd", read_only=True), AnsweredMount("/x", "/opt/amd")),
    )
    assert [node.host_path for node in found.device_nodes] == ["/dev/kfd"]
    assert [mount.options[-1] for mount in found.mounts] == ["ro"]


@pytest.mark.parametrize("answer", [{"cdi_devices": (CARD,)}, {"annotations": {"cdi.k8s.io/x": CARD}}])
def test_cdi_devices_are_copied_whether_a_field_or_an_annotation_names_them(answer: dict[str, Any]) -> None:
    found = edits(**answer)
    assert found.env == (("COMMON", "1"), ("CARD", "0"))
    assert found.device_nodes == (DeviceNode("/dev/kfd", "/dev/kfd", 240, 0, "rw", "c", uid=5),)
    assert found.mounts == (Mount("/opt/amd", "/opt/amd", ("ro", "bind")),)
    assert found.hooks == (Hook("/bin/hook", ("hook", "x")),)
    assert found.additional_gids == (44,)


def test_what_a_cdi_device_has_wins_over_what_the_answer_has() -> None:
    found = edits(
        env={"CARD": "9"},
        devices=(device("/dev/dri/card0", "/dev/kfd"),),
        mounts=(AnsweredMount("/opt/amd", "/dev/dri"), AnsweredMount("/other", "/opt/amd")),
        cdi_devices=(CARD,),
    )
    assert dict(found.env)["CARD"] == "0"
    assert [node.host_path for node in found.device_nodes] == ["/dev/kfd"]
    assert [(mount.container_path, mount.host_path) for mount in found.mounts] == [
        ("/other", "/opt/amd"),
        ("/opt/amd", "/opt/amd"),
    ]


def test_annotations_of_another_prefix_name_cdi_devices_if_the_setting_says_so() -> None:
    settings = ResourceSettings(cdi_annotations=("cdi.vendor/",))
    assert edits(settings=settings, annotations={"cdi.vendor/a": "amd.com/gpu=0"}).env


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"annotations": {"vendor/x": "1", "vendor/y": ""}}, Unsupported, r"annotation vendor/x, vendor/y for contain"),
        (
            {"cdi_devices": ("amd.com/gpu=9",)},
            HardwareRefusal,
            "plugin of amd.com/gpu: answers amd.com/gpu=9, which no CDI spec",
        ),
        ({"devices": (device("/dev/missing"),)}, HardwareRefusal, "answers the device /dev/missing, which is no"),
        ({"mounts": (AnsweredMount("/x", "/missing"),)}, HardwareRefusal, "answers the mount /missing, which is not"),
        ({"mounts": (AnsweredMount("x", "/opt/amd"),)}, Unsupported, "path 'x' is not absolute"),
        ({"devices": (device("/dev/kfd", permissions="x"),)}, Unsupported, "/dev/kfd has permissions .*starts: 'x'"),
        ({"devices": (device("/dev/kfd", permissions=""),)}, Unsupported, "/dev/kfd has permissions .*starts: ''"),
        ({"env": {"A=B": "1"}}, Unsupported, "variable 'A=B' is none"),
        ({"env": {"A": "x" * MOST_BYTES}}, Unsupported, "its answer has more than"),
    ],
)
def test_what_a_claim_cannot_give_is_refused(answer: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        edits(**answer)


def test_annotations_that_containers_do_not_need_can_be_left_out() -> None:
    settings = ResourceSettings(harmless_annotations=("vendor/*",))
    assert edits(settings=settings, annotations={"vendor/x": "1"}) == Edits()


def test_variables_that_containers_set_themselves_can_be_left_out() -> None:
    settings = ResourceSettings(omit_env=("LD_*", "CARD"))
    found = edits(settings=settings, env={"LD_LIBRARY_PATH": "/x", "A": "1"}, cdi_devices=("amd.com/gpu=0",))
    assert found.env == (("A", "1"), ("COMMON", "1"))


WORDS = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]), min_size=1, max_size=9)


@given(
    st.dictionaries(WORDS, WORDS),
    st.lists(st.sampled_from(["/dev/kfd", "/dev/dri", "/dev/dri/card0", "/dev/dri/by-path/pci-1"])),
    st.sampled_from(["r", "rw", "mrw"]),
)
def test_edits_survive_the_checkpoint(env: dict[str, str], devices: list[str], permissions: str) -> None:
    found = edits(env=env, devices=tuple(device(path, permissions=permissions) for path in devices))
    assert from_text(to_text(found)) == found
    assert len({node.path for node in found.device_nodes}) == len(found.device_nodes)
    assert dict(found.env) == env
