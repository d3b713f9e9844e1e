"""Regenerates memoryapi/schema.json from the OpenAPI documents of a real kube-apiserver.

    python -m tests.contract.openapi        (needs the programs of a control plane)

Only field names, types and patch strategies are kept: they are what strict decoding and strategic merge patch need.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testclusters import ControlPlane

SCHEMA = Path(__file__).parents[2] / "memoryapi" / "schema.json"
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


def render(schema: dict[str, Any]) -> str:
    """The schema as text with one line per type, so that a change in Kubernetes gives a short diff."""
    lines = ",\n".join(f" {json.dumps(name)}:{json.dumps(kept)}" for name, kept in schema["types"].items())
    return f'{{"kinds":{json.dumps(schema["kinds"])},\n"types":{{\n{lines}\n}}}}\n'


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


if __name__ == "__main__":
    with ControlPlane(components=()) as plane:
        SCHEMA.write_text(render(collect(lambda path: json.loads(plane.kubectl("get", "--raw", path).stdout))))
