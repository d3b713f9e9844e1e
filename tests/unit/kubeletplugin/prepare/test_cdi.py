import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from driver.errors import InvalidInput
from driver.yaml_values import yaml_texts
from kubeletplugin.hardware import DeviceNode, Edits, Handle, Hook, Mount, Use
from kubeletplugin.hardware.cdifields import read_spec
from kubeletplugin.prepare.cdi import CdiDevice, Spec, encode, minimum_version
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.plugin_node import SHARE_A, PluginNode, prepare, result, share

SCHEMA = Path(__file__).parents[3] / "data" / "cdi"


@cache
def validator() -> Draft7Validator:
    documents = {name: json.loads((SCHEMA / name).read_text()) for name in ("schema.json", "defs.json")}
    _close(documents)
    resources = [(name, DRAFT7.create_resource(document)) for name, document in documents.items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    return Draft7Validator(documents["schema.json"], registry=registry)


def _close(schema: Any) -> None:
    """Forbid unknown fields, as the parsers of container runtimes do although the schema does not say so."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema["additionalProperties"] = False
        for part in schema.values():
            _close(part)
    elif isinstance(schema, list):
        for part in schema:
            _close(part)


def check(content: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(content)
    validator().validate(document)
    return document


names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,20}[A-Za-z0-9])?", fullmatch=True)
paths = st.from_regex(r"/[a-z/]{1,20}", fullmatch=True)
edits = st.builds(
    Edits,
    env=st.lists(
        st.tuples(
            st.from_regex(r"[A-Z_]{1,8}", fullmatch=True),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    device_nodes=st.lists(
        st.builds(DeviceNode, path=paths, host_path=paths, major=st.integers(0, 511), minor=st.integers(0, 255)),
        max_size=2,
    ).map(tuple),
    mounts=st.lists(st.builds(Mount, paths, paths), max_size=2).map(tuple),
    hooks=st.lists(st.builds(Hook, paths, timeout_seconds=st.none() | st.integers(1, 60)), max_size=2).map(tuple),
    additional_gids=st.lists(st.integers(0, 65535), max_size=2).map(tuple),
)
specs = st.lists(st.builds(CdiDevice, names, edits), min_size=1, max_size=3, unique_by=lambda device: device.name).map(
    lambda devices: Spec("lode.dev", "claim", tuple(devices))
)


@given(specs)
def test_every_spec_satisfies_the_published_schema(spec: Spec) -> None:
    document = check(encode(spec))
    assert document["kind"] == "lode.dev/claim"
    assert [device["name"] for device in document["devices"]] == [device.name for device in spec.devices]
    assert all("=" in line for device in document["devices"] for line in device["containerEdits"]["env"])
    read, faults = read_spec(yaml_texts(encode(spec).decode()))
    assert (read["devices"][0]["containerEdits"]["env"], faults) == (
        tuple(f"{name}={value}" for name, value in spec.devices[0].edits.env),
        (),
    )


ODD = "".join(chr(code) for code in (*range(1, 0x20), *range(0x7F, 0xA1), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF))


def test_runtimes_read_every_character_as_it_was_given() -> None:
    """They read YAML, in which such characters are none or end a line; pairs of half characters are none there."""
    text = f"a{ODD}\U0001f600b"
    content = encode(Spec("lode.dev", "claim", (CdiDevice("a", Edits(env=(("A", text),))),)))
    written = content.decode().removesuffix("\n")
    assert not set(written) & set(ODD) - {"\xa0"}
    assert "\U0001f600" in written
    assert json.loads(written)["devices"][0]["containerEdits"]["env"] == [f"A={text}"]
    assert yaml_texts(written)["devices"][0]["containerEdits"]["env"] == [f"A={text}"]


def odd(value: Any) -> Any:
    """A value that the type says cannot be there."""
    return value


@pytest.mark.parametrize(
    ("what", "field", "said"),
    [
        (Edits(env=(("", "1"),)), "env[0]", "must be NAME=VALUE: '=1'"),
        (Edits(env=(("A", "\0"),)), "env[0]", "must be a text without NUL"),
        (Edits(env=(("A", "\udc80"),)), "env[0]", "must be a text without NUL"),
        (Edits(device_nodes=(DeviceNode("", "/dev/a", 1, 3),)), "deviceNodes[0].path", "must not be empty"),
        (
            Edits(device_nodes=(DeviceNode("/a", "/a", 2**63, 3),)),
            "deviceNodes[0].major",
            "must be a whole number from 0",
        ),
        (
            Edits(device_nodes=(DeviceNode("/a", "/a", 1, 3, file_mode=odd("0o660")),)),
            "deviceNodes[0].fileMode",
            "must be a whole number from 0 to 4294967295, without quotes: '0o660'",
        ),
        (
            Edits(device_nodes=(DeviceNode("/a", "/a", 1, 3, "x"),)),
            "deviceNodes[0].permissions",
            "must be letters of rwm",
        ),
        (
            Edits(device_nodes=(DeviceNode("/a", "/a", 1, 3, type=odd("x")),)),
            "deviceNodes[0].type",
            "must be one of b, c",
        ),
        (Edits(mounts=(Mount("", "/a"),)), "mounts[0].hostPath", "must not be empty"),
        (Edits(hooks=(Hook("/a", stage="later"),)), "hooks[0].hookName", "must be one of prestart"),
        (Edits(hooks=(Hook("/a", timeout_seconds=odd("1")),)), "hooks[0].timeout", "must be a whole number"),
        (Edits(additional_gids=(2**32,)), "additionalGids[0]", "must be a whole number from 0 to 4294967295"),
        (Edits(), "", "must not be empty"),
    ],
)
def test_nothing_is_written_that_a_runtime_refuses(what: Edits, field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        encode(Spec("lode.dev", "claim", (CdiDevice("a", what),)))
    (fault,) = refused.value.faults
    assert fault.field == f"devices[0].containerEdits.{field}".removesuffix(".")
    assert fault.message.startswith(said)


def test_what_prepare_writes_satisfies_the_published_schema() -> None:
    rig = PluginNode()
    results = [result("gpu-0", "a"), share("gpu-1-share", SHARE_A, request="b"), result("gpu-2-mig-1g-5gb-0", "c")]
    ref = rig.claim("c", results)
    prepare(rig.plugin(), ref)
    document = check(json.dumps(rig.spec(ref)).encode())
    assert document["cdiVersion"] == "0.6.0"
    assert all(device["name"].startswith(ref.uid) for device in document["devices"])


PLAIN, NODE = Edits(env=(("A", "1"),)), Edits(device_nodes=(DeviceNode("/dev/a", "/dev/b", 1, 3),))


@pytest.mark.parametrize(
    ("device_class", "name", "what", "version"),
    [
        ("claim", "gpu", PLAIN, "0.3.0"),
        ("claim", "0gpu", PLAIN, "0.5.0"),
        ("claim", "gpu", NODE, "0.5.0"),
        ("claim", "gpu", Edits(mounts=(Mount("tmpfs", "/a", (), "tmpfs"),)), "0.4.0"),
        ("a.claim", "gpu", PLAIN, "0.6.0"),
        ("claim", "gpu", Edits(additional_gids=(44,)), "0.7.0"),
    ],
)
def test_the_version_is_the_oldest_that_has_what_is_used(
    device_class: str, name: str, what: Edits, version: str
) -> None:
    assert minimum_version(Spec("lode.dev", device_class, (CdiDevice(name, what),))) == version


def test_all_that_a_runtime_would_reject_is_said_at_once() -> None:
    spec = Spec("9.dev", "c_", tuple(CdiDevice(name, PLAIN) for name in ("a/b", "x", "x")))
    with pytest.raises(InvalidInput) as caught:
        encode(spec)
    assert [fault.field for fault in caught.value.faults] == ["kind", "kind", "devices", "devices[0].name"]
    with pytest.raises(InvalidInput, match="must have at least one device"):
        encode(Spec("lode.dev", "claim", ()))


def test_what_all_cards_of_a_request_need_is_given_once() -> None:
    class Drivers(HardwareDecorator):
        def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
            of_driver = Edits(mounts=(Mount("/lib/a.so", "/lib/a.so"),), hooks=(Hook("/bin/sh"),))
            return replace(of_driver, env=super().edits(use, handles).env)

    rig = PluginNode()
    claim = rig.claim("c", [result("gpu-0"), result("gpu-1"), result("gpu-2", "other")])
    prepare(rig.plugin(hardware=Drivers(rig.hardware)), claim)
    edits = [device["containerEdits"] for device in rig.spec(claim)["devices"]]
    assert [len(each.get("hooks", [])) for each in edits] == [1, 0, 1]
    assert [sum(mount["hostPath"] == "/lib/a.so" for mount in each.get("mounts", [])) for each in edits] == [1, 0, 1]
