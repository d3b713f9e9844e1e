"""Regenerates memoryapi/schema.json from the OpenAPI documents of real kube-apiservers.

    python -m tests.contract.openapi        (needs the programs of a control plane, of each of `VERSIONS`)

Only field names, types and patch strategies are kept: they are what strict decoding and strategic merge patch need.

The schema is what all of these versions allow: a field that one of them lacks is left out, and one that any of them
requires is required. What passes in memory so passes on each of them. The folder `DIFFERENCES` has, for each version,
the types that it publishes otherwise, so that a contract test can compare the whole with a server of that version.
1.36 is not among the versions, because it does not serve all kinds: DeviceTaintRules are in v1 from 1.37 on.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from testclusters.controlplane import ControlPlane

SCHEMA = Path(__file__).parents[2] / "memoryapi" / "schema.json"
DIFFERENCES = Path(__file__).parents[1] / "data" / "schema"
VERSIONS = ("1.37", "1.38")
DOCUMENTS = {
    "/openapi/v3/api/v1": (
        "core.v1",
        ("Node", "Namespace", "Pod", "Event", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota"),
    ),
    "/openapi/v3/apis/batch/v1": ("batch.v1", ("Job",)),
    "/openapi/v3/apis/coordination.k8s.io/v1": ("coordination.v1", ("Lease",)),
    "/openapi/v3/apis/policy/v1": ("policy.v1", ("PodDisruptionBudget",)),
    "/openapi/v3/apis/storage.k8s.io/v1": ("storage.v1", ("CSINode", "StorageClass")),
    "/openapi/v3/apis/resource.k8s.io/v1": (
        "resource.v1",
        ("DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
    ),
}
_SCALARS = {"string": "string", "boolean": "bool", "number": "number"}
_SPECIAL = {
    "apimachinery.pkg.api.resource.Quantity": "quantity",
    "apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "apimachinery.pkg.apis.meta.v1.Time": "time",
    "apimachinery.pkg.runtime.RawExtension": "object",
    "apimachinery.pkg.util.intstr.IntOrString": "intstr",
}


def collect(fetch: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The schema of `DOCUMENTS`; ``fetch`` gets one OpenAPI document by its path."""
    kinds: dict[str, str] = {}
    types: dict[str, Any] = {}
    for path, (group, names) in DOCUMENTS.items():
        schemas = fetch(path)["components"]["schemas"]
        for name in names:
            kinds[name] = f"{group}.{name}"
            _add(f"{group}.{name}", schemas, types)
    return {"kinds": kinds, "types": dict(sorted(types.items()))}


def collect_from(plane: ControlPlane) -> dict[str, Any]:
    """The schema of `DOCUMENTS` that this server publishes."""
    return collect(lambda path: json.loads(plane.kubectl("get", "--raw", path).stdout))


def recorded(version: str) -> dict[str, Any]:
    """The schema that a server of that version published when the files were written."""
    shared = json.loads(SCHEMA.read_text())
    types = shared["types"] | json.loads((DIFFERENCES / f"{version}.json").read_text())
    return {"kinds": shared["kinds"], "types": {name: kept for name, kept in sorted(types.items()) if kept is not None}}


def allowed_by_all(schemas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What all of them allow. A type that has another name in one of them has that of the first."""
    return reduce(_allowed_by_both, schemas)


def differences(shared: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, Any]:
    """The types that are published otherwise than they are shared, by name; None: not at all."""
    ours, theirs = shared["types"], published["types"]
    return {name: theirs.get(name) for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)}


def render(schema: dict[str, Any]) -> str:
    """The schema as text with one line per type, so that a change in Kubernetes gives a short diff."""
    return f'{{"kinds":{json.dumps(schema["kinds"])},\n"types":{_lines(schema["types"])}}}\n'


def _lines(types: Mapping[str, Any]) -> str:
    return "{\n" + ",\n".join(f" {json.dumps(name)}:{json.dumps(kept)}" for name, kept in types.items()) + "\n}"


def _allowed_by_both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    types: dict[str, Any] = {}

    def struct(name: str, other: str) -> None:
        if name in types:
            return
        one, two = first["types"][name], second["types"][other]
        kept: dict[str, Any] = {"fields": {}}
        types[name] = kept
        if required := list(dict.fromkeys([*one.get("required", ()), *two.get("required", ())])):
            kept["required"] = required
        for field in one["fields"].keys() & two["fields"].keys():
            kept["fields"][field] = value(one["fields"][field], two["fields"][field])
        kept["fields"] = dict(sorted(kept["fields"].items()))
        assert set(required) <= set(kept["fields"]), f"{name} requires a field that {other} does not have"

    def value(one: Any, two: Any) -> Any:
        match one, two:
            case str(), str() if one.startswith("#") and two.startswith("#"):
                struct(one[1:], two[1:])
                return one
            case {"enum": mine}, {"enum": others}:
                return {"enum": [each for each in mine if each in others]}
            case dict(), dict() if one.keys() == two.keys() and one.get("merge") == two.get("merge"):
                return {key: kept if key == "merge" else value(kept, two[key]) for key, kept in one.items()}
        assert one == two, f"{one} in one version and {two} in the other: say here what both allow"
        return one

    assert first["kinds"] == second["kinds"]
    for name in first["kinds"].values():
        struct(name, name)
    return {"kinds": first["kinds"], "types": dict(sorted(types.items()))}


def _add(name: str, schemas: dict[str, Any], types: dict[str, Any]) -> None:
    if name in types or name in _SPECIAL:
        return
    found = schemas[_full(name)]
    kept: dict[str, Any] = {"fields": {}}
    types[name] = kept
    if found.get("required"):
        kept["required"] = found["required"]
    for field, described in sorted(found.get("properties", {}).items()):
        kept["fields"][field] = _type(described, schemas, types)


def _type(described: dict[str, Any], schemas: dict[str, Any], types: dict[str, Any]) -> Any:
    reference = described.get("$ref") or next((part["$ref"] for part in described.get("allOf", ())), None)
    if reference:
        name = _short(reference.rsplit("/", 1)[1])
        _add(name, schemas, types)
        return _SPECIAL.get(name) or f"#{name}"
    match described.get("type"):
        case "array":
            return _list(described, schemas, types)
        case "object" if "additionalProperties" in described:
            return {"map": _type(described["additionalProperties"], schemas, types)}
        case "object":
            return "object"
        case "integer":
            return described.get("format", "int64")
        case "string" if described.get("format") == "byte":
            return "string"
        case str(scalar):
            return {"enum": described["enum"]} if described.get("enum") else _SCALARS[scalar]
    return "any"


def _list(described: dict[str, Any], schemas: dict[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"list": _type(described["items"], schemas, types)}
    if "merge" in described.get("x-kubernetes-patch-strategy", ""):
        kept["merge"] = described.get("x-kubernetes-patch-merge-key", "")
    return kept


def _full(name: str) -> str:
    return "io.k8s." + ("" if name.startswith("apimachinery.") else "api.") + name


def _short(name: str) -> str:
    return name.removeprefix("io.k8s.").removeprefix("api.")


def _regenerate() -> None:
    published = {}
    for version in VERSIONS:
        with ControlPlane(components=(), kubernetes=version) as plane:
            published[version] = collect_from(plane)
    shared = allowed_by_all(published.values())
    SCHEMA.write_text(render(shared))
    DIFFERENCES.mkdir(exist_ok=True)
    for version, schema in published.items():
        (DIFFERENCES / f"{version}.json").write_text(f"{_lines(differences(shared, schema))}\n")


if __name__ == "__main__":
    _regenerate()
