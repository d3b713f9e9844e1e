"""CDI specs of vendors are read as container runtimes read them, and keep nobody else from a device.

tests/contract/test_cdi_reading.py holds more of them against the library of the runtimes.
"""

import json
from collections.abc import Mapping

import pytest

from kubeletplugin.hardware.deviceplugin.cdispecs import edits_of
from kubeletplugin.hardware.edits import DeviceNode, Edits, Hook, Mount
from kubeletplugin.hardware.port import HardwareRefusal, Unsupported
from tests.fakes.deviceplugin.host_tree import FakeHostTree

RESOURCE = "amd.com/gpu"
KIND = "cdiVersion: 0.7.0\nkind: amd.com/gpu\n"
OWN = f"{KIND}devices: [{{name: '0', containerEdits: {{env: [OWN=1]}}}}]\n"


def read(edits: str = "{env: [A=1]}", common: str = "{}", name: str = "a") -> Edits:
    """The edits of a device that has these in a spec that has these for all its devices."""
    text = f"{KIND}containerEdits: {common}\ndevices:\n- name: {name}\n  containerEdits: {edits}\n"
    return merged(f"{RESOURCE}={name}", {"/etc/cdi/gpu.yaml": text})


def merged(name: str, specs: Mapping[str, str | bytes]) -> Edits:
    files = FakeHostTree(
        ["/dev/null", "/dev/card"],
        {path: text.encode() if isinstance(text, str) else text for path, text in specs.items()},
        {"/dev/link": "/dev/card"},
    )
    common, own = edits_of([name], RESOURCE, files)
    return Edits(
        common.env + own.env,
        common.device_nodes + own.device_nodes,
        common.mounts + own.mounts,
        common.hooks + own.hooks,
        common.additional_gids + own.additional_gids,
    )


@pytest.mark.parametrize("name", ["0000:41:00.0", "010", "0x10", "1_0", "12:30", "on", "1.0", "2026-01-02", "0o7"])
def test_a_name_is_what_is_written(name: str) -> None:
    assert read(name=name).env == (("A", "1"),)


def test_arguments_are_what_is_written() -> None:
    (hook,) = read(
        "{hooks: [{hookName: prestart, path: /h, args: [0755, 0000:41:00.0, on, ~, 'x'], timeout: 0}]}"
    ).hooks
    assert hook == Hook("/h", ("0755", "0000:41:00.0", "on", "x"), (), "prestart", 0)


@pytest.mark.parametrize(
    ("text", "mode"),
    [("0o660", 0o660), ("0660", 0o660), ("432", 0o660), ("0x1b0", 0o660), ("0b1_10", 6), ("080", 80), ("6.9", 6)],
)
def test_a_mode_is_a_number_of_any_base(text: str, mode: int) -> None:
    (node,) = read(f"{{deviceNodes: [{{path: /dev/card, fileMode: {text}}}]}}").device_nodes
    assert node.file_mode == mode


@pytest.mark.parametrize(
    ("fields", "node"),
    [
        ("path: /dev/card", DeviceNode("/dev/card", "/dev/card", 240, 1, "rwm")),
        ("path: /dev/x, hostPath: /dev/card, uid: 5", DeviceNode("/dev/x", "/dev/card", 240, 1, "rwm", uid=5)),
        ("path: /dev/card, type: c, major: 9, minor: 5", DeviceNode("/dev/card", "/dev/card", 9, 5, "rwm")),
        ("path: /dev/card, major: 9", DeviceNode("/dev/card", "/dev/card", 9, 0, "rwm")),
        ("path: /dev/none, type: b, major: 9", DeviceNode("/dev/none", "/dev/none", 9, 0, "rwm", "b")),
        ("path: /dev/none, type: p", DeviceNode("/dev/none", "/dev/none", 0, 0, "rwm", "p")),
        ("path: /dev/link, type: c, major: 9", DeviceNode("/dev/link", "/dev/link", 9, 0, "rwm")),
    ],
)
def test_a_device_is_what_the_spec_says_and_else_what_the_host_has(fields: str, node: DeviceNode) -> None:
    assert read(f"{{deviceNodes: [{{{fields}}}]}}").device_nodes == (node,)


def test_a_mount_keeps_its_type() -> None:
    (mount,) = read("{mounts: [{hostPath: tmpfs, containerPath: /m, type: tmpfs, options: [size=1m]}]}").mounts
    assert mount == Mount("tmpfs", "/m", ("size=1m",), "tmpfs")


def test_what_is_for_all_devices_of_a_spec_comes_once_and_first() -> None:
    text = (
        f"{KIND}containerEdits: {{env: [C=1]}}\n"
        "devices: [{name: a, containerEdits: {env: [A=1]}}, {name: b, containerEdits: {env: [B=1]}}]\n"
    )
    files = FakeHostTree([], {"/etc/cdi/gpu.yaml": text.encode()})
    found = edits_of([f"{RESOURCE}={name}" for name in "aba"], RESOURCE, files)
    assert [edits.env for edits in found] == [(("C", "1"),), (("A", "1"),), (("B", "1"),)]


def test_equal_hooks_stay() -> None:
    hook = "{hookName: prestart, path: /h}"
    assert len(read(f"{{hooks: [{hook}, {hook}]}}", f"{{hooks: [{hook}]}}").hooks) == 3


def test_the_first_document_of_a_file_counts() -> None:
    assert merged(f"{RESOURCE}=0", {"/etc/cdi/gpu.yaml": f"{OWN}---\n{KIND}---\n]"}).env == (("OWN", "1"),)


def test_a_mapping_has_what_it_lacks_from_those_that_it_merges() -> None:
    text = f"{KIND}devices: [{{name: b, containerEdits: &e {{env: [A=1]}}}}, {{name: a, containerEdits: {{<<: *e}}}}]\n"
    assert merged(f"{RESOURCE}=a", {"/etc/cdi/gpu.yaml": text}).env == (("A", "1"),)


def test_the_later_folder_counts() -> None:
    specs = {"/etc/cdi/z.yaml": OWN, "/var/run/cdi/a.yaml": OWN.replace("OWN", "LATER")}
    assert merged(f"{RESOURCE}=0", specs).env == (("LATER", "1"),)


@pytest.mark.parametrize("later", [{}, {"/var/run/cdi/c.yaml": OWN}])
def test_a_device_in_two_specs_of_a_folder_is_nobodys(later: dict[str, str]) -> None:
    with pytest.raises(HardwareRefusal) as refused:
        merged(f"{RESOURCE}=0", {"/etc/cdi/a.yaml": OWN, "/etc/cdi/b.json": OWN, **later})
    assert str(refused.value) == (
        "device plugin of amd.com/gpu: answers amd.com/gpu=0, which /etc/cdi/a.yaml and /etc/cdi/b.json have: runtimes "
        "take it from none; remove all but one"
    )


OTHERS: dict[str, bytes] = {
    "no kind": b"devices: []\n",
    "a kind that is a list": b"kind: [amd.com/gpu]\n",
    "a kind that is a mapping": b"kind: {amd.com/gpu: 1}\n",
    "a kind that is null": b"kind: ~ # amd.com/gpu\n",
    "a list": b"[amd.com/gpu]\n",
    "devices that are a number": f"{KIND}devices: 3\n".encode(),
    "a device without a name": f"{KIND}devices: [{{containerEdits: {{env: [A=1]}}}}]\n".encode(),
    "a device whose name is a list": f"{KIND}devices: [{{name: [0]}}]\n".encode(),
    "a device that is a number": f"{KIND}devices: [3]\n".encode(),
    "a key that is a list": b"? [amd.com/gpu]\n: 1\n",
    "nothing": b"",
    "no text": b"amd.com/gpu \xff",
    "a tag": b"kind: !other amd.com/gpu\n",
    "a merged list": f"a: &a [1]\nb: {{<<: *a}}\n{KIND}".encode(),
    "deep nesting": f"{KIND}a: {'[' * 101}{']' * 101}\n".encode(),
    "too many bytes": f"{KIND}# ".encode() + b"x" * 4 * 1024 * 1024,
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("path", ["/etc/cdi/other.yaml", "/var/run/cdi/aaa.yaml", "/var/run/cdi/zzz.json"])
def test_a_cdi_spec_of_others_keeps_nobody_from_a_device(path: str, content: bytes) -> None:
    assert merged(f"{RESOURCE}=0", {"/var/run/cdi/own.yaml": OWN, path: content}).env == (("OWN", "1"),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (OTHERS["a merged list"], "<< names what is no mapping (line 2)"),
        (OTHERS["deep nesting"], "nested more than 100 levels deep"),
        (OTHERS["too many bytes"], "has more than 4194304 bytes"),
        (OTHERS["a device that is a number"], "devices[0]: must be a mapping: '3'"),
        (OTHERS["a device without a name"], "devices[0].name: must consist of letters, digits and"),
        (f"{KIND}kind: x\n".encode(), "duplicate key: 'kind'"),
        (f"{KIND}a: {{".encode(), "is not YAML"),
        (f"{KIND}kinds: []\n".encode(), "kinds: is no field of CDI; leave it out"),
        (OWN.replace("0.7.0", "9").encode(), "cdiVersion: must be one of 0.1.0, "),
        (
            OWN.replace("'0'", "a, a: b").replace("[OWN=1]", "A=1").encode(),
            "devices[0].a: is no field of CDI; leave it ",
        ),
    ],
)
def test_why_the_spec_of_a_device_cannot_be_read_is_said(content: bytes, said: str) -> None:
    with pytest.raises(HardwareRefusal) as refused:
        merged(f"{RESOURCE}=0", {"/etc/cdi/amd.yaml": content})
    assert "device plugin of amd.com/gpu: answers amd.com/gpu=0, which no CDI spec in /etc/cdi or " in str(
        refused.value
    )
    assert f"these cannot be read: /etc/cdi/amd.yaml: {said}" in str(refused.value)


@pytest.mark.parametrize(
    ("edits", "error", "said"),
    [
        ("{netDevices: [{hostInterfaceName: eth1, name: eth1}]}", Unsupported, "has netDevices, which a claim cannot"),
        ("{intelRdt: {}}", Unsupported, "has intelRdt, which a claim cannot give"),
        ("{deviceNodes: [{path: /dev/none}]}", HardwareRefusal, "/dev/none is no device node"),
        ("{deviceNodes: [{path: /dev/link}]}", HardwareRefusal, "/dev/link is no device node"),
        ("{deviceNodes: [{path: /dev/card, type: b}]}", HardwareRefusal, "/dev/card is of the type c, not b"),
    ],
)
def test_what_a_container_cannot_get_is_refused_with_the_device_plugin(
    edits: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=f"^device plugin of amd.com/gpu: CDI device amd.com/gpu=a: {said}"):
        merged(f"{RESOURCE}=a", {"/etc/cdi/gpu.yaml": _with_version(edits)})


def _with_version(edits: str) -> str:
    return f"cdiVersion: 1.1.0\nkind: amd.com/gpu\ndevices: [{{name: a, containerEdits: {edits}}}]\n"


def test_all_faults_of_a_spec_are_said_at_once() -> None:
    with pytest.raises(HardwareRefusal) as refused:
        read("{deviceNodes: [{path: [x], fileMode: '0660', mode: 1}], env: A=1}")
    for said in (
        "path: must be a text",
        "fileMode: must be a whole number",
        "mode: is no field",
        "env: must be a list",
    ):
        assert said in str(refused.value)


def test_the_specs_of_other_vendors_are_not_even_decoded() -> None:
    """What they are made of takes no time and no memory."""
    with pytest.raises(HardwareRefusal) as refused:
        merged(f"{RESOURCE}=0", {"/etc/cdi/other.yaml": "kind: other.com/nic\na: ["})
    assert "other.yaml" not in str(refused.value)


def test_a_slash_may_be_written_as_json_allows() -> None:
    spec = {"cdiVersion": "0.5.0", "kind": RESOURCE, "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}
    written = json.dumps(spec).replace("/", "\\/")
    assert merged(f"{RESOURCE}=0", {"/etc/cdi/amd.json": written}).env == (("A", "1"),)
