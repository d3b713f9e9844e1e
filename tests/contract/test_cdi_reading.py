"""CDI specs of vendors are read as the library of container runtimes reads them, and so are those that we write.

A container of a claim gets what it would get from the runtime if the kubelet named the vendor's CDI devices to it, and
what the runtime would refuse is refused when the claim is prepared.
"""

import json
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driver.deviceplugins import ResourceSettings
from kubeletplugin.hardware.deviceplugin.answers import AnsweredMount, PluginAnswer, edits_from
from kubeletplugin.hardware.deviceplugin.cdispecs import FOLDERS
from kubeletplugin.hardware.deviceplugin.hostfiles import SystemHostTree
from kubeletplugin.hardware.edits import DeviceNode, Edits
from kubeletplugin.hardware.port import HardwareRefusal
from kubeletplugin.prepare.cdi import CdiDevice, Spec, encode
from testclusters.programs import CDI

RESOURCE, CARD = "vendor.com/gpu", "vendor.com/gpu=a"
USER = 1000


class HostWithSpecs(SystemHostTree):
    """This machine, with CDI specs of its own."""

    def __init__(self, folder: Path):
        super().__init__("/")
        self._folders = {path: f"{folder}{path}" for path in FOLDERS}

    def names(self, folder: str) -> tuple[str, ...]:
        return super().names(self._folders[folder])

    def read(self, path: str, most: int) -> bytes:
        folder, _, name = path.rpartition("/")
        return super().read(f"{self._folders[folder]}/{name}", most)


@dataclass(frozen=True)
class Case:
    """Specs of a node, by their paths, and the CDI devices that a device plugin answers."""

    specs: dict[str, str]
    devices: tuple[str, ...] = (CARD,)


def spec(*devices: str, version: str = "0.7.0", kind: str = RESOURCE, common: str = "") -> str:
    """A spec with devices, each given as what it has after ``- ``."""
    return "\n".join(
        [f"cdiVersion: {version}", f"kind: {kind}", common, "devices:", *(f"- {each}" for each in devices)]
    )


def one(edits: str, common: str = "", name: str = "a", version: str = "0.7.0") -> Case:
    common = f"containerEdits: {common}" if common else ""
    text = spec(f"name: {name}\n  containerEdits: {edits}", common=common, version=version)
    return Case({"etc/cdi/gpu.yaml": text}, (f"{RESOURCE}={name}",))


def node(fields: str) -> Case:
    return one(f"{{deviceNodes: [{{{fields}}}]}}")


A, B = "{name: a, containerEdits: {env: [A=1]}}", "{name: b, containerEdits: {env: [B=1, A=2]}}"
HOOK = "{hookName: createContainer, path: /h}"
GIVEN = {
    "a PCI address as a name": one("{env: [A=1]}", name="0000:41:00.0"),
    "digits as a name": one("{env: [A=1]}", name="010"),
    "a word of YAML 1.1 as a name": one("{env: [A=1]}", name="on"),
    "a date as a name": one("{env: [A=1]}", name="2026-01-02"),
    "an octal mode of YAML 1.2": node("path: /dev/null, fileMode: 0o660"),
    "an octal mode of YAML 1.1": node("path: /dev/null, fileMode: 0660"),
    "a mode in other bases": node("path: /dev/null, fileMode: 0x1b0, uid: 1_000, gid: 0b11"),
    "a number with a point": node("path: /dev/null, gid: 12.0, uid: 1e3"),
    "bare arguments": one(f"{{hooks: [{HOOK[:-1]}, args: [h, 0755, 0000:41:00.0, on, 1.10, ~, '']}}]}}"),
    "a timeout": one(f"{{hooks: [{HOOK[:-1]}, timeout: 0}}]}}"),
    "the same hook twice": one(f"{{hooks: [{HOOK}, {HOOK}]}}"),
    "hooks of all stages": one(
        "{hooks: [{hookName: prestart, path: /a}, {hookName: poststop, path: /b, env: [A=b=c]}]}"
    ),
    "one place in the common edits and the device's own": one(
        "{mounts: [{hostPath: /two, containerPath: /m}], deviceNodes: [{path: /dev/x, hostPath: /dev/zero}],"
        " env: [A=2]}",
        "{mounts: [{hostPath: /one, containerPath: /m}], deviceNodes: [{path: /dev/x, hostPath: /dev/null}],"
        " env: [A=1, C=1]}",
    ),
    "type and number": node("path: /dev/null, type: c, major: 9, minor: 5, fileMode: 0600"),
    "a number without a type": node("path: /dev/null, major: 9, minor: 5"),
    "a type without a number": node("path: /dev/null, type: c"),
    "a number without a node": node("path: /dev/x, hostPath: /dev/none, type: c, major: 1, minor: 3, fileMode: 0666"),
    "a named pipe": node("path: /dev/x, hostPath: /dev/none, type: p, fileMode: 0666"),
    "owner and permissions": node("path: /dev/null, uid: 0, gid: 44, permissions: r"),
    "a type of mount": one("{mounts: [{hostPath: tmpfs, containerPath: /m, type: tmpfs, options: [size=1m]}]}"),
    "groups": one("{additionalGids: [44, 0, 44, 0o100]}"),
    "several devices": Case(
        {"etc/cdi/gpu.yaml": spec(A, B, common="containerEdits: {env: [C=1], hooks: [" + HOOK + "]}")},
        ("vendor.com/gpu=b", "vendor.com/gpu=a", "vendor.com/gpu=b"),
    ),
    "the later folder": Case({"etc/cdi/a.yaml": spec(A), "var/run/cdi/z.json": spec(B.replace("b,", "a,"))}),
    "several documents": Case({"etc/cdi/gpu.yaml": f"{spec(A)}\n---\n{spec(B)}"}),
    "an anchor and a merge key": Case(
        {"etc/cdi/gpu.yaml": spec("{name: b, containerEdits: &e {env: [B=1]}}", "{name: a, containerEdits: {<<: *e}}")}
    ),
    "JSON": Case(
        {
            "etc/cdi/gpu.json": json.dumps(
                {
                    "cdiVersion": "0.7.0",
                    "kind": RESOURCE,
                    "devices": [{"name": "a", "containerEdits": {"env": ["A=ß\x7f\x85\t\n\u2028 b"]}}],
                }
            )
        }
    ),
    "characters": one('{env: ["A=\\x7f\\x85\\u2028 \\uffff\\U0001f600"]}'),
    "a version with a v": one("{env: [A=1]}", version="v0.5.0"),
    "another spec that makes no sense": Case({"etc/cdi/gpu.yaml": spec(A), "etc/cdi/odd.yaml": f"kind: {RESOURCE}"}),
    "nothing for a field": one("{env: [A=1, ~], mounts: ~, deviceNodes: null}", "~"),
}
REFUSED = {
    "two specs of a folder": Case({"etc/cdi/a.yaml": spec(A), "etc/cdi/b.yaml": spec(A)}),
    "two specs of a folder, and one of the other": Case(
        {"etc/cdi/a.yaml": spec(A), "etc/cdi/b.yaml": spec(A), "var/run/cdi/c.yaml": spec(A)}
    ),
    "a device twice": Case({"etc/cdi/a.yaml": spec(A, A)}),
    "a later document": Case({"etc/cdi/gpu.yaml": f"{spec(B)}\n---\n{spec(A)}"}),
    "no document": Case({"etc/cdi/gpu.yaml": ""}),
    "a quoted number": node("path: /dev/null, fileMode: '0660'"),
    "a mode that is no number": node("path: /dev/null, fileMode: rw"),
    "a negative number": node("path: /dev/null, uid: -1"),
    "too large a number": node("path: /dev/null, uid: 4294967296"),
    "a device that is none": node("path: /etc/hostname"),
    "a device that is not there": node("path: /dev/none"),
    "a device behind a link": node("path: /dev/stdin"),
    "a device of another type": node("path: /dev/null, type: b"),
    "a type that is none": node("path: /dev/null, type: x"),
    "permissions that are none": node("path: /dev/null, permissions: x"),
    "a device without a path": node("hostPath: /dev/null"),
    "an unknown field": node("path: /dev/null, mode: 0660"),
    "a repeated field": node("path: /dev/null, path: /dev/null"),
    "a list for a text": node("path: [/dev/null]"),
    "a text for a list": one("{env: A=1}"),
    "a variable without a name": one("{env: ['=1']}"),
    "a hook of an unknown stage": one("{hooks: [{hookName: later, path: /h}]}"),
    "a hook without a path": one("{hooks: [{hookName: prestart}]}"),
    "a mount without a path": one("{mounts: [{hostPath: /a}]}"),
    "no edits": one("{}"),
    "a version that is too old": one("{additionalGids: [44]}", version="0.5.0"),
    "a version that is none": one("{env: [A=1]}", version="0.7"),
    "no version": one("{env: [A=1]}", version='""'),
    "a name that is none": one("{env: [A=1]}", name="a_"),
    "a kind that is none": Case({"etc/cdi/gpu.yaml": spec(A, kind="vendor.com")}),
    "another device of the spec that makes no sense": Case({"etc/cdi/gpu.yaml": spec(A, "{name: b}")}),
}


def test_containers_get_what_the_runtime_gives_them(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    for user in (0, USER):
        found = runtime.compare(GIVEN, user)
        assert [(title, seen.error) for title, seen in found.items() if seen.error] == []
        assert {title: (seen.ours, seen.native) for title, seen in found.items() if seen.ours != seen.native} == {}


def test_what_the_runtime_refuses_is_refused_before_in_words(tmp_path: Path) -> None:
    found = Runtime(tmp_path).compare(REFUSED)
    assert [title for title, seen in found.items() if not seen.error] == []
    refused = {title: seen.ours for title, seen in found.items()}
    assert [title for title, said in refused.items() if f"device plugin of {RESOURCE}: " not in str(said)] == []


def test_whatever_is_written_without_quotes_means_the_same(tmp_path: Path) -> None:
    """Words as people and programs write them, at fields of every type."""
    draw = random.Random(44)
    beginnings = ["", *"0 0x 0o 0b 1_ - + . 1e 2026-01-0 12:3 ~ nul tru of y".split()]
    endings = ("".join(draw.choices("0123456789abefxo_.+-", k=draw.randint(0, 4))) for _ in range(200))
    drawn = {draw.choice(beginnings) + ending for ending in endings}
    words = sorted(word for word in drawn if re.search(r"[0-9a-z]", word) and not re.search(r"^-\.|0[bo][-+]", word))
    cases = {}
    for word in words:
        cases[f"{word} as a mode"] = node(f"path: /dev/null, fileMode: {word}")
        cases[f"{word} as a timeout"] = one(f"{{hooks: [{HOOK[:-1]}, timeout: {word}}}]}}")
        cases[f"{word} as an argument"] = one(f"{{hooks: [{HOOK[:-1]}, args: [{word}]}}]}}")
        cases[f"{word} as a name"] = one("{env: [A=1]}", name=word)
    found = Runtime(tmp_path).compare(cases)
    refused = {title for title, seen in found.items() if seen.error}
    assert {title for title, seen in found.items() if isinstance(seen.ours, str)} == refused
    given = {title: seen for title, seen in found.items() if title not in refused}
    assert {title: (seen.ours, seen.native) for title, seen in given.items() if seen.ours != seen.native} == {}
    assert len(refused) > 100
    assert len(given) > 100


ODD = "".join(chr(code) for code in (*range(1, 0x20), *range(0x7F, 0xA1), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF))


def test_every_character_of_an_answer_arrives(tmp_path: Path) -> None:
    """Runtimes read our JSON as YAML."""
    text = f"a{ODD}\U0001f600 b"
    answer = PluginAnswer(env={"TEXT": text}, mounts=(AnsweredMount(f"/{text}", "/dev"),))
    edits = edits_from(answer, RESOURCE, ResourceSettings(), SystemHostTree("/"))
    container = Runtime(tmp_path).given(edits)
    assert container["process"]["env"] == [f"TEXT={text}"]
    assert [mount["destination"] for mount in container["mounts"]] == [f"/{text}"]


@pytest.mark.parametrize(
    ("owner", "user", "seen"),
    [
        ((0o640, 0, 1234), 0, (0o640, None, 1234)),
        ((0o640, 0, 1234), USER, (0o640, USER, 1234)),
        ((0o660, 1001, 1002), USER, (0o660, 1001, 1002)),
        ((0o666, 0, 0), 0, (0o666, None, None)),
        ((0o666, 0, 0), USER, (0o666, USER, None)),
    ],
)
def test_a_container_sees_the_owner_of_the_hosts_device(
    tmp_path: Path, owner: tuple[int, int, int], user: int, seen: tuple[int | None, ...]
) -> None:
    """None is root."""
    node = DeviceNode("/dev/card", "/dev/null", 1, 3).owned_as(*owner)
    (device,) = Runtime(tmp_path).given(Edits(device_nodes=(node,)), user)["linux"]["devices"]
    assert (device["fileMode"], device.get("uid"), device.get("gid")) == seen


@dataclass
class Seen:
    """What a container gets by the runtime alone, and from a claim: the reason if it gets nothing."""

    native: dict[str, Any]
    error: str
    ours: dict[str, Any] | str = field(default_factory=dict)


class Runtime:
    """The library of container runtimes, with a folder for specs."""

    def __init__(self, folder: Path):
        self._folder = folder

    def compare(self, cases: dict[str, Case], user: int = 0) -> dict[str, Seen]:
        """What a container of ``user`` gets in each case."""
        native, claims = [], {}
        for number, (title, case) in enumerate(cases.items()):
            own = self._folder / str(user) / str(number)
            for path, text in case.specs.items():
                (own / path).parent.mkdir(parents=True, exist_ok=True)
                (own / path).write_text(text)
            folders = [f"{own}{path}" for path in FOLDERS]
            once = [*dict.fromkeys(case.devices)]  # as the kubelet names them
            native.append({"folders": folders, "devices": once, "uid": user})
            claims[title] = self._claim(own, case.devices)
        seen = {
            title: Seen(self._edits(answer), answer["error"])
            for title, answer in zip(cases, self._ask(native), strict=True)
        }
        made = {title: claim for title, claim in claims.items() if isinstance(claim, Path)}
        questions = [{"folders": [str(path)], "devices": ["lode.dev/claim=c"], "uid": user} for path in made.values()]
        for title, answer in zip(made, self._ask(questions), strict=True):
            assert answer["error"] == "", (title, answer)
            seen[title].ours = self._edits(answer)
        for title, claim in claims.items():
            if isinstance(claim, str):
                seen[title].ours = claim
        return seen

    def given(self, edits: Edits, user: int = 0) -> dict[str, Any]:
        """What a container of ``user`` has of a claim with these edits."""
        (self._folder / "c.json").write_bytes(written(edits))
        question = {"folders": [str(self._folder)], "devices": ["lode.dev/claim=c"], "uid": user}
        (answer,) = self._ask([question])
        assert answer["error"] == "", answer
        container: dict[str, Any] = answer["container"]
        return container

    @staticmethod
    def _claim(folder: Path, devices: tuple[str, ...]) -> Path | str:
        """The folder with the spec of a claim whose device plugin answers CDI devices; else why there is none."""
        try:
            answer = PluginAnswer(cdi_devices=devices)
            edits = edits_from(answer, RESOURCE, ResourceSettings(), HostWithSpecs(folder))
        except HardwareRefusal as error:
            return str(error)
        claim = folder / "claim"
        claim.mkdir(parents=True)
        (claim / "c.json").write_bytes(written(edits))
        return claim

    @staticmethod
    def _ask(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        given = json.dumps(questions)
        program = CDI.build() / "cdi"
        done = subprocess.run([program], input=given, capture_output=True, text=True, check=True, timeout=60)
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    @staticmethod
    def _edits(answer: dict[str, Any]) -> dict[str, Any]:
        """What the container has. Rules about devices that others have taken the place of mean nothing."""
        found: dict[str, Any] = answer["container"]
        linux = found.get("linux", {})
        here = {(device["major"], device["minor"]) for device in linux.get("devices", ())}
        rules = linux.get("resources", {}).pop("devices", ())
        linux["rules"] = [rule for rule in rules if (rule["major"], rule["minor"]) in here]
        return found


def written(edits: Edits) -> bytes:
    return encode(Spec("lode.dev", "claim", (CdiDevice("c", edits),)))
