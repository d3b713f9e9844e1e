"""Documents as objects of the API: which kinds are understood, and everything that is wrong with them.

An object without a uid was written by somebody: it must be one the API server would take, and gets the defaults it
would get. One with a uid was stored by an API server, perhaps a newer one: fields not known here are no fault.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.documents import Document, InputFault, Origin
from driver.errors import Fault
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)
from memoryapi import JOBS, claims, pods, simple_kinds, slices
from memoryapi.kind_rules import KindRules, Write, at
from memoryapi.object_writer import ADMIN_ACCESS
from memoryapi.schema import FieldType, ParsedObject, child, parse, type_of

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
WORKLOADS: Final = (JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
"""Kinds whose pods are made by a controller."""

_RULES: Final[Mapping[Resource, KindRules | None]] = {
    NODES: simple_kinds.NODE_RULES,
    NAMESPACES: simple_kinds.NAMESPACE_RULES,
    PODS: pods.POD_RULES,
    RESOURCE_CLAIMS: claims.CLAIM_RULES,
    RESOURCE_CLAIM_TEMPLATES: claims.CLAIM_TEMPLATE_RULES,
    RESOURCE_SLICES: slices.SLICE_RULES,
    DEVICE_CLASSES: slices.DEVICE_CLASS_RULES,
    DEVICE_TAINT_RULES: slices.DEVICE_TAINT_RULE_RULES,
    JOBS: simple_kinds.JOB_RULES,
    DEPLOYMENTS: None,
    REPLICA_SETS: None,
    STATEFUL_SETS: None,
}
_KINDS: Final = {(resource.group, resource.kind): resource for resource in _RULES}
_DEFAULTED: Final = (PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
_PLAIN: Final = frozenset(("name", "attributes", "capacity", "consumesCounters", "allowMultipleAllocations"))
"""Fields of a device that nearly every one has."""
_SAME_SHAPE: Final = {"resource.k8s.io": ("v1", "v1beta2")}
"""Versions of a group that differ in nothing that is read here."""

Key = tuple[Resource, str, str]
"""KindRules, namespace, name."""


@dataclass(frozen=True, slots=True)
class Given:
    """An object of the input, as the API server would store it."""

    resource: Resource
    object: Object
    origin: Origin
    stored: bool
    """Whether an API server stored it before."""

    @property
    def key(self) -> Key:
        """What no second object may have."""
        metadata = self.object["metadata"]
        return self.resource, metadata.get("namespace") or "", metadata["name"]

    @property
    def subject(self) -> str:
        """``Pod default/train``."""
        return subject(self.resource, self.object)


@dataclass(slots=True)
class Checked:
    """Everything that was understood, what was left out, and what is wrong."""

    given: list[Given] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Kinds that have no part in allocation, and how many of each."""
    faults: list[InputFault] = field(default_factory=list)


def subject(resource: Resource, obj: Object) -> str:
    """How an object is spoken of: ``Pod default/train``, ``Node gpu-1``."""
    namespace, name = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def check(documents: Sequence[Document], namespace: str) -> Checked:
    """The objects of the documents; those of namespaced kinds that name no namespace are of ``namespace``."""
    checked = Checked()
    found = [(document, given) for document in documents if (given := _given(document, namespace, checked))]
    closed = {
        given.key[2]
        for _, given in found
        if given.resource == NAMESPACES and not _allows_admin(given.object["metadata"].get("labels"))
    }
    known: dict[Key, tuple[Any, Origin]] = {}
    for document, given in found:
        if given.key in known:
            value, origin = known[given.key]
            if value != document.value:
                message = f"stands also in {origin} and is different there; leave one out"
                checked.faults.append(InputFault(document.origin, given.subject, "metadata.name", message))
            continue
        known[given.key] = (document.value, document.origin)
        _examine(given, given.key[1] not in closed, checked)
    return checked


def _allows_admin(labels: Any) -> bool:
    return isinstance(labels, dict) and labels.get(ADMIN_ACCESS) == "true"


def _given(document: Document, namespace: str, checked: Checked) -> Given | None:
    """The object as far as its kind and name say; None if it cannot be told or is of no interest."""
    value = document.value
    if not isinstance(value, dict):
        return _refuse(
            document, "", "", f"is {_told(value)}, not an object; give what kubectl get -o yaml prints", checked
        )
    version, name = value.get("apiVersion"), value.get("kind")
    for where, content in (("apiVersion", version), ("kind", name)):
        if not isinstance(content, str) or not content:
            return _refuse(document, "", where, f"must be a string, found {_told(content)}", checked)
    assert isinstance(version, str)
    assert isinstance(name, str)
    group, _, number = version.rpartition("/")
    resource = _KINDS.get((group, name))
    if resource is None:
        checked.ignored[f"{name} ({version})"] += 1
        return None
    metadata = value.get("metadata")
    called = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(called, str) or not called:
        message = f"must be the {name}'s name, found {_told(called)}"
        return _refuse(document, name, "metadata.name", message, checked)
    space = metadata.get("namespace") or namespace
    if not isinstance(space, str):
        message = f"must be a string, found {_told(space)}"
        return _refuse(document, f"{name} {called}", "metadata.namespace", message, checked)
    placed = {"namespace": space} if resource.namespaced else {}
    obj = {**value, "apiVersion": resource.api_version, "metadata": {**metadata, **placed}}
    if number not in _SAME_SHAPE.get(group, (resource.version,)):
        plural = f"{resource.plural}.{resource.version}.{group}"
        message = f"{version!r} is not read; write {resource.api_version} (kubectl get {plural} -o yaml prints it)"
        return _refuse(document, subject(resource, obj), "apiVersion", message, checked)
    return Given(resource, obj, document.origin, bool(metadata.get("uid")))


def _refuse(document: Document, about: str, where: str, message: str, checked: Checked) -> Given | None:
    checked.faults.append(InputFault(document.origin, about, where, message))
    return None


def _told(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _examine(given: Given, admin: bool, checked: Checked) -> None:
    """Take the object in with its defaults, or note all its faults."""
    if given.stored:
        faults, obj = _damage(given), _without_nulls(given)
    elif given.resource in WORKLOADS:
        faults, obj = workload_faults(given), given.object
    else:
        faults, obj = _written(given, admin)
    checked.faults += (InputFault(given.origin, given.subject, fault.field, fault.message) for fault in faults)
    if not faults:
        checked.given.append(Given(given.resource, obj, given.origin, given.stored))


def _damage(given: Given) -> list[Fault]:
    """What no API server can have stored."""
    # Slices are most of any cluster's bytes, and almost always sound.
    if given.resource == RESOURCE_SLICES and _is_sound(given.object):
        return []
    return damage(given)


def damage(given: Given) -> list[Fault]:
    """Values of the wrong type and required ones that are missing, field by field."""
    if _RULES[given.resource] is None:
        return []
    parsed = parse(type_of(given.resource.kind), given.object)
    faults = [*parsed.mistyped, *(fault for fault in parsed.faults if fault.message == "Required value")]
    more: Iterator[Fault] = iter(())
    if given.resource == PODS:
        more = _entry_faults(given.object.get("spec") or {})
    elif given.resource == RESOURCE_SLICES:
        more = _name_faults(given.object.get("spec") or {})
    return faults or list(more)


def _without_nulls(given: Given) -> Object:
    """The object without fields that say nothing; slices as they are, for those are told to be sound."""
    return given.object if given.resource == RESOURCE_SLICES else _full(given.object)


def _full(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _full(part) for name, part in value.items() if part is not None}
    return [_full(part) for part in value] if isinstance(value, list) else value


_SCALARS: Final[Mapping[str, type]] = {"string": str, "int": int, "bool": bool, "version": str}


def _is_sound(part: Object) -> bool:
    """Whether everything in a slice that is not checked when it is decoded has the right type; False if in doubt."""
    spec = part.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("pool"), dict):
        return False
    names = [spec.get("driver"), spec["pool"].get("name"), spec.get("nodeName", "")]
    devices = spec.get("devices") or ()
    if not isinstance(devices, list | tuple) or not all(isinstance(device, dict) for device in devices):
        return False
    sets = spec.get("sharedCounters") or ()
    if not isinstance(sets, list | tuple) or not all(isinstance(one, dict) for one in sets):
        return False
    names += [one.get("name") for one in (*devices, *sets)]
    return all(isinstance(name, str) for name in names) and all(map(_has_sound_values, devices))


def _has_sound_values(device: Object) -> bool:
    if not _PLAIN.issuperset(device):
        return False
    attributes, counters = device.get("attributes") or {}, device.get("consumesCounters") or ()
    if not isinstance(attributes, dict) or not isinstance(counters, list):
        return False
    for value in attributes.values():
        if not isinstance(value, dict) or len(value) != 1:
            return False
        ((name, scalar),) = value.items()
        if type(scalar) is not _SCALARS.get(name):
            return False
    return all(isinstance(one, dict) and isinstance(one.get("counterSet"), str) for one in counters)


def _written(given: Given, admin: bool) -> tuple[list[Fault], Object]:
    rules = _RULES[given.resource]
    assert rules is not None
    parsed = parse(type_of(given.resource.kind), given.object)
    obj: Object = parsed.value
    if faults := _shape(parsed, given.resource.kind):
        return faults, obj
    if given.resource in (RESOURCE_SLICES, DEVICE_TAINT_RULES) and not obj.get("spec"):
        return [Fault("spec", "Required value")], obj
    write = Write(obj, None, "", "", admin)
    if given.resource in _DEFAULTED:
        status = obj.get("status")
        rules.default(write)
        if status:
            obj["status"] = status
    return [*rules.faults(write), *(_entry_faults(obj["spec"]) if given.resource == PODS else ())], obj


def _name_faults(spec: Object) -> Iterator[Fault]:
    """What in a slice has no name, or no driver or pool to be known by."""
    for path in ("driver", "pool.name"):
        if not at(spec, path):
            yield Fault(f"spec.{path}", "Required value")
    for part in ("devices", "sharedCounters"):
        for index, one in enumerate(spec.get(part) or ()):
            if not one.get("name"):
                yield Fault(f"spec.{part}[{index}].name", "Required value")


def _entry_faults(spec: Object) -> Iterator[Fault]:
    """Claims of a pod without a name to refer to them by."""
    for index, entry in enumerate(spec.get("resourceClaims") or ()):
        if not entry.get("name"):
            yield Fault(f"spec.resourceClaims[{index}].name", "Required value")


def _shape(parsed: ParsedObject, of: str) -> list[Fault]:
    unknown = [Fault(name, f"is no field of {of}; remove it or correct its spelling") for name in parsed.unknown]
    return [*parsed.mistyped, *unknown, *parsed.faults]


# Workloads


def workload_faults(given: Given) -> list[Fault]:
    """What is wrong with a workload as far as its pods depend on it: their number and their template."""
    if given.resource == JOBS:
        faults = _shape(parse(type_of(JOBS.kind), given.object), JOBS.kind)
    else:
        faults = list(_replica_faults(given.object.get("spec")))
    return faults or [*_template_faults(at(given.object, "spec.template"))]


def _replica_faults(spec: Any) -> Iterator[Fault]:
    if not isinstance(spec, dict):
        yield Fault("spec", f"must be an object, found {_told(spec)}")
        return
    if not isinstance(spec.get("ordinals") or {}, dict):
        yield Fault("spec.ordinals", f"must be an object, found {_told(spec['ordinals'])}")
    for name in ("replicas", "ordinals.start"):
        value = at(spec, name)
        if value is not None and (not isinstance(value, int) or value < 0):
            yield Fault(f"spec.{name}", f"must be a number from 0, found {_told(value)}")


def _template_faults(raw: Any) -> Iterator[Fault]:
    parsed = parse(_template_type(), raw)
    template = parsed.value
    faults = _shape(parsed, "a pod template")
    if not faults and at(template, "spec") is None:
        faults = [Fault("spec", "Required value")]
    if not faults:
        write = Write({"metadata": {}, "spec": template["spec"]}, None, "", "")
        pods.POD_RULES.default(write)
        faults = [*pods.POD_RULES.faults(write), *_entry_faults(template["spec"])]
    for fault in faults:
        yield Fault(f"spec.template.{fault.field}".rstrip("."), fault.message)


def _template_type() -> FieldType:
    spec = child(type_of(JOBS.kind), "spec")
    template = child(spec, "template") if spec else None
    assert template is not None
    return template


def pod_of_template(template: Object) -> Object:
    """The spec and status of a pod made of a template without faults, with the API server's defaults."""
    copied = parse(_template_type(), template).value
    pod: Object = {"metadata": copied.get("metadata") or {}, "spec": copied["spec"]}
    pods.POD_RULES.default(Write(pod, None, "", ""))
    return pod
