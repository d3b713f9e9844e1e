"""The fields of a CDI spec: what their texts mean to container runtimes, and which specs these refuse. Pure.

As the runtimes' Go library has it (``tags.cncf.io/container-device-interface``, from 1.1.1 on): a scalar means what its
field is, not what YAML would make of it. So a name of digits is a name, and ``on`` an argument. docs/deviceplugins.md
has the rules. Specs of vendors are read by them, and our own are checked.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from driver.bare import Bare
from driver.errors import Fault

_VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_NO_PERMISSIONS: Final = "none"
_DEVICE_TYPES: Final = ("b", "c", "u", "p")
_HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_PART_OF_KIND: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_NULL: Final = ("", "~", "null", "Null", "NULL")
_YES: Final = ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON")
_NO: Final = ("n", "N", "no", "No", "NO", "off", "Off", "OFF")
_INTEGER: Final = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_STRAY: Final = re.compile(r"(?<![0-9])_|_(?![0-9])")
"""A line that is not between two digits; only after a point does it matter."""
_MOST_DIGITS: Final = 100
_MOST_SHOWN: Final = 40

Faults = list[Fault]
Field = Callable[[Any, str, Faults], Any]
"""What a value of ``yaml_texts`` (None: missing) means; its path, and the list to which its faults are added."""


def read_spec(value: Any) -> tuple[Mapping[str, Any], tuple[Fault, ...]]:
    """All fields of a spec, missing ones with what that stands for, and why a runtime refuses the spec.

    Args:
        value: what ``yaml_texts`` has read; the fields mean nothing if there are faults.
    """
    faults: Faults = []
    spec: Mapping[str, Any] = _SPEC(value, "", faults)
    return spec, tuple(faults or _faults(spec))


def number_in(text: str) -> int | None:
    """The whole number that a text without quotes stands for, in any base, or cut off at the point; None if none."""
    plain = text.replace("_", "")
    if not text or text[0] not in "+-.0123456789" or len(plain) > _MOST_DIGITS:
        return None
    if text[0] == "." and _STRAY.search(text):
        return None
    if found := _INTEGER.fullmatch(plain):
        is_octal = found[2].startswith("0") and found[2].isdigit()
        return int(found[1] + found[2], 8 if is_octal else 0)
    value = float(plain) if _FLOAT.fullmatch(plain) else math.inf
    return int(value) if math.isfinite(value) else None


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, Bare) and value in _NULL)


def _said(value: Any) -> str:
    return repr(str(value)[:_MOST_SHOWN]) if isinstance(value, str) else "a list or mapping"


def _text(value: Any, at: str, faults: Faults) -> str:
    if _is_null(value):
        return ""
    if not isinstance(value, str):
        faults.append(Fault(at, f"must be a text: {_said(value)}"))
        return ""
    return str(value)


def _flag(value: Any, at: str, faults: Faults) -> bool:
    if _is_null(value):
        return False
    bare = str(value).lower() if isinstance(value, Bare) else ""
    if bare not in ("true", "false") and value not in _YES + _NO:
        faults.append(Fault(at, f"must be true or false: {_said(value)}"))
    return bare == "true" or value in _YES


def _number(least: int, most: int, missing: int | None = None) -> Field:
    def read(value: Any, at: str, faults: Faults) -> int | None:
        if _is_null(value):
            return missing
        number = number_in(value) if isinstance(value, Bare) else None
        if number is None or not least <= number <= most:
            faults.append(Fault(at, f"must be a whole number from {least} to {most}, without quotes: {_said(value)}"))
        return number

    return read


def _list(entry: Field, *, nulls: bool = True) -> Field:
    """A list. Entries that are null are left out, or, if there may be none of them, are faults."""

    def read(value: Any, at: str, faults: Faults) -> tuple[Any, ...]:
        if not _is_null(value) and not isinstance(value, list):
            faults.append(Fault(at, f"must be a list: {_said(value)}"))
            return ()
        entries = () if _is_null(value) else tuple(enumerate(value))
        if not nulls:
            faults += [Fault(f"{at}[{index}]", "must not be empty") for index, each in entries if _is_null(each)]
        return tuple(entry(each, f"{at}[{index}]", faults) for index, each in entries if not _is_null(each))

    return read


def _texts_by_name(value: Any, at: str, faults: Faults) -> Mapping[str, str]:
    if not _is_null(value) and not isinstance(value, dict):
        faults.append(Fault(at, f"must be a mapping: {_said(value)}"))
        return {}
    return {} if _is_null(value) else {key: _text(each, _below(at, key), faults) for key, each in value.items()}


def _mapping(fields: Mapping[str, Field]) -> Field:
    def read(value: Any, at: str, faults: Faults) -> Mapping[str, Any]:
        given: Mapping[str, Any] = value if isinstance(value, dict) else {}
        if not _is_null(value) and not isinstance(value, dict):
            faults.append(Fault(at, f"must be a mapping: {_said(value)}"))
            return given
        faults += [Fault(_below(at, key), "is no field of CDI; leave it out") for key in given if key not in fields]
        return {key: field(given.get(key), _below(at, key), faults) for key, field in fields.items()}

    return read


def _optional(field: Field) -> Field:
    """A field that differs from an empty one if it is missing."""

    def read(value: Any, at: str, faults: Faults) -> Any:
        return None if _is_null(value) else field(value, at, faults)

    return read


def _texts(*names: str) -> dict[str, Field]:
    return dict.fromkeys(names, _text)


def _below(at: str, key: str) -> str:
    return f"{at}.{key[:_MOST_SHOWN]}" if at else key[:_MOST_SHOWN]


_ID: Final = _number(0, 2**32 - 1)
_DEVICE_NUMBER: Final = _number(0, 2**63 - 1, 0)
_NODE: Final = _mapping(
    {
        **_texts("path", "hostPath", "type", "permissions"),
        **dict.fromkeys(("major", "minor"), _DEVICE_NUMBER),
        **dict.fromkeys(("fileMode", "uid", "gid"), _ID),
    }
)
_HOOK: Final = _mapping(
    {
        **_texts("hookName", "path"),
        **dict.fromkeys(("args", "env"), _list(_text)),
        "timeout": _number(-(2**63), 2**63 - 1),
    }
)
_EDITS: Final = _mapping(
    {
        "env": _list(_text),
        "deviceNodes": _list(_NODE, nulls=False),
        "netDevices": _list(_mapping(_texts("hostInterfaceName", "name")), nulls=False),
        "hooks": _list(_HOOK, nulls=False),
        "mounts": _list(
            _mapping({**_texts("hostPath", "containerPath", "type"), "options": _list(_text)}), nulls=False
        ),
        "intelRdt": _optional(
            _mapping(
                {
                    **_texts("closID", "l3CacheSchema", "memBwSchema"),
                    "schemata": _list(_text),
                    "enableMonitoring": _flag,
                }
            )
        ),
        "additionalGids": _list(_ID),
    }
)
_DEVICE: Final = _mapping({"name": _text, "annotations": _texts_by_name, "containerEdits": _EDITS})
_SPEC: Final = _mapping(
    {
        **_texts("cdiVersion", "kind"),
        "annotations": _texts_by_name,
        "devices": _list(_DEVICE),
        "containerEdits": _EDITS,
    }
)


def _faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Why runtimes refuse a spec whose fields have the right types."""
    version, least = spec["cdiVersion"].removeprefix("v"), _least_version(spec)
    if version not in _VERSIONS:
        yield Fault("cdiVersion", f"must be one of {', '.join(_VERSIONS)}: {_said(version)}")
    elif _VERSIONS.index(version) < _VERSIONS.index(least):
        yield Fault("cdiVersion", f"must be {least} at least for what the spec has: {_said(version)}")
    vendor, _, device_class = spec["kind"].partition("/")
    for part in (vendor, device_class):
        if not _PART_OF_KIND.fullmatch(part):
            yield Fault("kind", f"must start with a letter and end with a letter or digit: {_said(part)}")
    yield from _faults_of_edits(spec["containerEdits"], "containerEdits")
    names = Counter(device["name"] for device in spec["devices"])
    if not names:
        yield Fault("devices", "must have at least one device")
    for name in sorted(name for name, count in names.items() if count > 1):
        yield Fault("devices", f"must not have the name twice: {_said(name)}")
    for index, device in enumerate(spec["devices"]):
        at, edits = f"devices[{index}]", device["containerEdits"]
        if not _NAME.fullmatch(device["name"]):
            wanted = "must consist of letters, digits and, inside, the characters _ - . and colon"
            yield Fault(f"{at}.name", f"{wanted}: {_said(device['name'])}")
        if edits["intelRdt"] is None and not any(edits.values()):
            yield Fault(f"{at}.containerEdits", "must not be empty")
        yield from _faults_of_edits(edits, f"{at}.containerEdits")


def _least_version(spec: Mapping[str, Any]) -> str:
    """The oldest version of the specification that has all that a spec has."""
    every = [spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])]
    resources = [edits["intelRdt"] for edits in every if edits["intelRdt"] is not None]
    if any(edits["netDevices"] for edits in every) or any(r["schemata"] or r["enableMonitoring"] for r in resources):
        return "1.1.0"
    if resources or any(edits["additionalGids"] for edits in every):
        return "0.7.0"
    annotated = spec["annotations"] or any(device["annotations"] for device in spec["devices"])
    if annotated or "." in spec["kind"].partition("/")[2]:
        return "0.6.0"
    digit_first = any(device["name"][:1].isdigit() for device in spec["devices"])
    if digit_first or any(node["hostPath"] for edits in every for node in edits["deviceNodes"]):
        return "0.5.0"
    return "0.4.0" if any(mount["type"] for edits in every for mount in edits["mounts"]) else "0.3.0"


def _faults_of_edits(edits: Mapping[str, Any], at: str) -> Iterator[Fault]:
    yield from _faults_of_env(edits["env"], f"{at}.env")
    for index, node in enumerate(edits["deviceNodes"]):
        here = f"{at}.deviceNodes[{index}]"
        yield from _empty(node, ("path",), here)
        if node["type"] not in ("", *_DEVICE_TYPES):
            yield Fault(f"{here}.type", f"must be one of {', '.join(_DEVICE_TYPES)}: {_said(node['type'])}")
        if node["permissions"] != _NO_PERMISSIONS and set(node["permissions"]) - set("rwm"):
            yield Fault(f"{here}.permissions", f"must be letters of rwm, or none: {_said(node['permissions'])}")
    for index, hook in enumerate(edits["hooks"]):
        here = f"{at}.hooks[{index}]"
        if hook["hookName"] not in _HOOKS:
            yield Fault(f"{here}.hookName", f"must be one of {', '.join(_HOOKS)}: {_said(hook['hookName'])}")
        yield from _empty(hook, ("path",), here)
        yield from _faults_of_env(hook["env"], f"{here}.env")
    for index, mount in enumerate(edits["mounts"]):
        yield from _empty(mount, ("hostPath", "containerPath"), f"{at}.mounts[{index}]")
    for key in ("hostInterfaceName", "name"):
        given = [device[key] for device in edits["netDevices"]]
        if len({*given, ""}) <= len(given):
            yield Fault(f"{at}.netDevices", f"must each have a {key} of its own")


def _empty(value: Mapping[str, Any], keys: Iterable[str], at: str) -> Iterator[Fault]:
    return (Fault(f"{at}.{key}", "must not be empty") for key in keys if not value[key])


def _faults_of_env(env: Iterable[str], at: str) -> Iterator[Fault]:
    for index, line in enumerate(env):
        if line.find("=") <= 0:
            yield Fault(f"{at}[{index}]", f"must be NAME=VALUE: {_said(line)}")
