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
    "cdiVersion": "0.6.0",
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
        },
        {"name": "net", "containerEdits": {"netDevices": [{"hostInterfaceName": "eth1", "name": "eth1"}]}},
        {"name": "tmp", "containerEdits": {"mounts": [{"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}]}},
        {"name": "lost", "containerEdits": {"deviceNodes": [{"path": "/dev/missing"}]}},
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


def test_a_device_without_permissions_cannot_be_used() -> None:
    (node,) = edits(devices=(device("/dev/kfd", permissions=""),)).device_nodes
    assert node.permissions == "none", "missing permissions mean all in CDI"


def test_of_two_devices_or_mounts_at_one_place_the_first_counts() -> None:
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


KIND = "kind: amd.com/gpu\n"
OTHERS: dict[str, bytes] = {
    "no kind": b"devices: []\n",
    "a kind that is a list": b"kind: [amd.com/gpu]\n",
    "a kind that is a mapping": b"kind: {amd.com/gpu: 1}\n",
    "a kind that is null": b"kind: ~ # amd.com/gpu\n",
    "a list": b"[amd.com/gpu]\n",
    "devices that are a number": f"{KIND}devices: 3\n".encode(),
    "a device without a name": f"{KIND}devices: [{{}}]\n".encode(),
    "a device whose name is a list": f"{KIND}devices: [{{name: [0]}}]\n".encode(),
    "a device that is a number": f"{KIND}devices: [3]\n".encode(),
    "a key that is a list": b"? [amd.com/gpu]\n: 1\n",
    "several documents": f"{KIND}---\n{KIND}".encode(),
    "nothing": b"",
    "no text": b"amd.com/gpu \xff",
    "a tag": b"kind: !other amd.com/gpu\n",
    "a merge key": f"a: &a {{x: 1}}\nb: {{<<: *a}}\n{KIND}".encode(),
    "deep nesting": f"{KIND}a: {'[' * 200}{']' * 200}\n".encode(),
    "too many bytes": f"{KIND}# ".encode() + b"x" * 4 * 1024 * 1024,
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("path", ["/etc/cdi/other.yaml", "/var/run/cdi/aaa.yaml", "/var/run/cdi/zzz.json"])
def test_a_cdi_spec_of_others_keeps_nobody_from_a_device(path: str, content: bytes) -> None:
    files = FakeHostTree(["/dev/kfd"], {**FILES.contents, path: content})
    assert edits(files, cdi_devices=(CARD,)) == edits(cdi_devices=(CARD,))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (OTHERS["a merge key"], "merge keys (<<) are not supported (line 2); write the fields out"),
        (OTHERS["deep nesting"], "nested more than 100 levels deep"),
        (OTHERS["several documents"], "has several documents"),
        (OTHERS["too many bytes"], "has more than 4194304 bytes"),
        (OTHERS["a device without a name"], "cannot be decoded: KeyError('name')"),
        (f"{KIND}kind: x\n".encode(), "duplicate key: 'kind'"),
        (f"{KIND}a: {{".encode(), "is not YAML"),
    ],
)
def test_why_the_spec_of_a_device_cannot_be_read_is_said(content: bytes, said: str) -> None:
    with pytest.raises(HardwareRefusal) as refused:
        edits(FakeHostTree([], {"/etc/cdi/amd.yaml": content}), cdi_devices=(CARD,))
    assert f"these cannot be read: /etc/cdi/amd.yaml: {said}" in str(refused.value)


def test_the_specs_of_other_vendors_are_not_even_decoded() -> None:
    """What they are made of takes no time and no memory."""
    spec = b"kind: other.com/nic\na: &a [1]\nb: {<<: *a}\n"
    with pytest.raises(HardwareRefusal) as refused:
        edits(FakeHostTree([], {"/etc/cdi/other.yaml": spec}), cdi_devices=(CARD,))
    assert "other.yaml" not in str(refused.value)


def test_a_slash_may_be_written_as_json_allows() -> None:
    written = json.dumps(SPEC).replace("/", "\\/").encode()
    files = FakeHostTree(["/dev/kfd"], {"/etc/cdi/amd.json": written})
    assert edits(files, cdi_devices=(CARD,)) == edits(cdi_devices=(CARD,))


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
        ({"cdi_devices": ("amd.com/gpu=net",)}, Unsupported, "has netDevices"),
        ({"cdi_devices": ("amd.com/gpu=tmp",)}, Unsupported, "has a mount of type tmpfs"),
        ({"cdi_devices": ("amd.com/gpu=lost",)}, HardwareRefusal, "/dev/missing is no device node"),
        ({"devices": (device("/dev/missing"),)}, HardwareRefusal, "answers the device /dev/missing, which is no"),
        ({"mounts": (AnsweredMount("/x", "/missing"),)}, HardwareRefusal, "answers the mount /missing, which is not"),
        ({"mounts": (AnsweredMount("x", "/opt/amd"),)}, Unsupported, "path 'x' is not absolute"),
        ({"devices": (device("/dev/kfd", permissions="x"),)}, Unsupported, "/dev/kfd has the permissions 'x'"),
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
    st.sampled_from(["", "r", "rw", "mrw"]),
)
def test_edits_survive_the_checkpoint(env: dict[str, str], devices: list[str], permissions: str) -> None:
    found = edits(env=env, devices=tuple(device(path, permissions=permissions) for path in devices))
    assert from_text(to_text(found)) == found
    assert len({node.path for node in found.device_nodes}) == len(found.device_nodes)
    assert dict(found.env) == env
