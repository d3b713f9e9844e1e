"""Documents as objects of the API: which kinds are supported, and everything that is wrong with the objects.

An object without a uid was written by its author: it must be valid for the API server, and gets the API server's
defaults. An object with a uid was stored by an API server, perhaps a newer one: it may have fields unknown here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.objects.documents import Document, InputFault, Origin
from controller.membership import GROUP_SOURCES
from driver.errors import Fault
from driver.kube.api import (
    DEPLOYMENTS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    Object,
    Resource,
)
from driver.label_selectors import label_selector_from
from memoryapi import JOBS, claims, evictions, pods, simple_kinds, slices
from memoryapi.kind_rules import KindRules, Write, at
from memoryapi.object_writer import ADMIN_ACCESS
from memoryapi.schema import FieldType, ParsedObject, child, parse, type_of

WORKLOADS: Final = (JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
"""Kinds whose pods are created by a controller."""

_RULES: Final[Mapping[Resource, KindRules | None]] = {
    NODES: simple_kinds.NODE_RULES,
    NAMESPACES: simple_kinds.NAMESPACE_RULES,
    PODS: pods.POD_RULES,
    RESOURCE_CLAIMS: claims.CLAIM_RULES,
    RESOURCE_QUOTAS: simple_kinds.QUOTA_RULES,
    POD_DISRUPTION_BUDGETS: evictions.BUDGET_RULES,
    RESOURCE_CLAIM_TEMPLATES: claims.CLAIM_TEMPLATE_RULES,
    RESOURCE_SLICES: slices.SLICE_RULES,
    DEVICE_CLASSES: slices.DEVICE_CLASS_RULES,
    DEVICE_TAINT_RULES: slices.DEVICE_TAINT_RULE_RULES,
    JOBS: simple_kinds.JOB_RULES,
    DEPLOYMENTS: None,
    REPLICA_SETS: None,
    STATEFUL_SETS: None,
    **dict.fromkeys(GROUP_SOURCES),
}
_KINDS: Final = {
    (resource.group, resource.kind): [
        other for other in _RULES if (other.group, other.kind) == (resource.group, resource.kind)
    ]
    for resource in _RULES
}
"""Every kind in the versions that are read here."""
_DEFAULTED: Final = (PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
_COMMON_FIELDS: Final = frozenset(("name", "attributes", "capacity", "consumesCounters", "allowMultipleAllocations"))
"""Fields that are enough for nearly every device."""
_EQUAL_VERSIONS: Final = {"resource.k8s.io": ("v1", "v1beta2")}
"""Versions of a group that are equal in everything that is read here."""

InputKey = tuple[Resource, str, str]
"""Kind, namespace, name."""


@dataclass(frozen=True, slots=True)
class InputObject:
    """An object of the input, as the API server would store it."""

    resource: Resource
    object: Object
    origin: Origin
    stored: bool
    """Whether it was read from an API server."""

    @property
    def key(self) -> InputKey:
        """Unique among all objects."""
        metadata = self.object["metadata"]
        return self.resource, metadata.get("namespace") or "", metadata["name"]

    @property
    def subject(self) -> str:
        """``Pod default/train``."""
        return subject(self.resource, self.object)


@dataclass(slots=True)
class CheckedInput:
    """The objects of the input, the kinds that are ignored, and what is wrong."""

    objects: list[InputObject] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Kinds that have no part in allocation, and the number of objects of each."""
    faults: list[InputFault] = field(default_factory=list)


def subject(resource: Resource, obj: Object) -> str:
    """An object's kind and key for messages: ``Pod default/train``, ``Node gpu-1``."""
    namespace, name = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def check(documents: Sequence[Document], namespace: str) -> CheckedInput:
    """The objects of the documents; ``namespace`` is that of objects that should name one and do not."""
    checked = CheckedInput()
    items = [(document, item) for document in documents if (item := _parse(document, namespace, checked))]
    without_admin_access = {
        item.key[2]
        for _, item in items
        if item.resource == NAMESPACES and not _allows_admin(item.object["metadata"].get("labels"))
    }
    known: dict[InputKey, tuple[Any, Origin]] = {}
    for document, item in items:
        if item.key in known:
            value, origin = known[item.key]
            if value != document.value:
                message = f"another object with this name, which differs: {origin}; leave one out"
                checked.faults.append(InputFault(document.origin, item.subject, "metadata.name", message))
            continue
        known[item.key] = (document.value, document.origin)
        _examine(item, item.key[1] not in without_admin_access, checked)
    return checked


def _allows_admin(labels: Any) -> bool:
    return isinstance(labels, dict) and labels.get(ADMIN_ACCESS) == "true"


def _parse(document: Document, namespace: str, checked: CheckedInput) -> InputObject | None:
    """The object of a document, its content unchecked; None if its kind or name is not valid, or if it is ignored."""
    value = document.value
    if not isinstance(value, dict):
        message = f"must be an object, found {_shorten(value)}; give what kubectl get -o yaml prints"
        return _refuse(document, "", "", message, checked)
    version, name = value.get("apiVersion"), value.get("kind")
    for field_name, content in (("apiVersion", version), ("kind", name)):
        if not isinstance(content, str) or not content:
            return _refuse(document, "", field_name, f"must be a string, found {_shorten(content)}", checked)
    assert isinstance(version, str)
    assert isinstance(name, str)
    group, _, number = version.rpartition("/")
    versions = _KINDS.get((group, name))
    if versions is None:
        checked.ignored[f"{name} ({version})"] += 1
        return None
    resource = next((one for one in versions if one.version == number), versions[0])
    metadata = value.get("metadata")
    object_name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(object_name, str) or not object_name:
        message = f"must be the {name}'s name, found {_shorten(object_name)}"
        return _refuse(document, name, "metadata.name", message, checked)
    own_namespace = metadata.get("namespace") or namespace
    if not isinstance(own_namespace, str):
        message = f"must be a string, found {_shorten(own_namespace)}"
        return _refuse(document, f"{name} {object_name}", "metadata.namespace", message, checked)
    if resource.namespaced:
        metadata = {**metadata, "namespace": own_namespace}
    obj = {**value, "apiVersion": resource.api_version, "metadata": metadata}
    if number not in _EQUAL_VERSIONS.get(group, (resource.version,)):
        plural = f"{resource.plural}.{resource.version}.{group}"
        message = (
            f"version not supported: {version!r}; write {resource.api_version} (kubectl get {plural} -o yaml prints it)"
        )
        return _refuse(document, subject(resource, obj), "apiVersion", message, checked)
    return InputObject(resource, obj, document.origin, bool(metadata.get("uid")))


def _refuse(document: Document, about: str, field_name: str, message: str, checked: CheckedInput) -> InputObject | None:
    checked.faults.append(InputFault(document.origin, about, field_name, message))
    return None


def _shorten(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _examine(item: InputObject, admin: bool, checked: CheckedInput) -> None:
    """Add the object with its defaults, or all its faults."""
    if item.stored:
        faults, obj = _damage(item), _without_nulls(item)
    elif item.resource in GROUP_SOURCES:
        # Their APIs are not known here; what cannot be decoded is told later.
        faults, obj = [], item.object
    elif item.resource in WORKLOADS:
        faults, obj = workload_faults(item), item.object
    else:
        faults, obj = _validate(item, admin)
    checked.faults += (InputFault(item.origin, item.subject, fault.field, fault.message) for fault in faults)
    if not faults:
        checked.objects.append(InputObject(item.resource, obj, item.origin, item.stored))


def _damage(item: InputObject) -> list[Fault]:
    """Faults that no object stored by an API server can have."""
    # Slices are most of any cluster's bytes, and almost always sound.
    if item.resource == RESOURCE_SLICES and _is_sound(item.object):
        return []
    return damage(item)


def damage(item: InputObject) -> list[Fault]:
    """Values of the wrong type and required ones that are missing, field by field."""
    if _RULES[item.resource] is None:
        return []
    parsed = parse(type_of(item.resource.kind), item.object)
    faults = [*parsed.mistyped, *(fault for fault in parsed.faults if fault.message == "Required value")]
    more: Iterator[Fault] = iter(())
    if item.resource == PODS:
        more = _entry_faults(item.object.get("spec") or {})
    elif item.resource == RESOURCE_SLICES:
        more = _name_faults(item.object.get("spec") or {})
    return faults or list(more)


def _without_nulls(item: InputObject) -> Object:
    """The object without fields that are null; slices as they are, because ``_is_sound`` looked at them."""
    return item.object if item.resource == RESOURCE_SLICES else _drop_nulls(item.object)


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_nulls(part) for name, part in value.items() if part is not None}
    return [_drop_nulls(part) for part in value] if isinstance(value, list) else value


_SCALARS: Final[Mapping[str, type]] = {"string": str, "int": int, "bool": bool, "version": str}


def _is_sound(part: Object) -> bool:
    """Whether everything in a slice that decoding does not check has the right type; False if that is not certain."""
    spec = part.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("pool"), dict):
        return False
    names = [spec.get("driver"), spec["pool"].get("name"), spec.get("nodeName", "")]
    devices = spec.get("devices") or ()
    if not isinstance(devices, list | tuple) or not all(isinstance(device, dict) for device in devices):
        return False
    sets = spec.get("sharedCounters") or ()
    if not isinstance(sets, list | tuple) or not all(isinstance(counter_set, dict) for counter_set in sets):
        return False
    names += [part.get("name") for part in (*devices, *sets)]
    return all(isinstance(name, str) for name in names) and all(map(_has_sound_values, devices))


def _has_sound_values(device: Object) -> bool:
    if not _COMMON_FIELDS.issuperset(device):
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
    return all(isinstance(counter, dict) and isinstance(counter.get("counterSet"), str) for counter in counters)


def _validate(item: InputObject, admin: bool) -> tuple[list[Fault], Object]:
    rules = _RULES[item.resource]
    assert rules is not None
    parsed = parse(type_of(item.resource.kind), item.object)
    obj: Object = parsed.value
    if faults := _schema_faults(parsed):
        return faults, obj
    if item.resource in (RESOURCE_SLICES, DEVICE_TAINT_RULES) and not obj.get("spec"):
        return [Fault("spec", "Required value")], obj
    write = Write(obj, None, "", "", admin)
    if item.resource in _DEFAULTED:
        status = obj.get("status")
        rules.default(write)
        if status:
            obj["status"] = status
    return [*rules.faults(write), *(_entry_faults(obj["spec"]) if item.resource == PODS else ())], obj


def _name_faults(spec: Object) -> Iterator[Fault]:
    """Parts of a slice without a name, and a missing driver or pool."""
    for path in ("driver", "pool.name"):
        if not at(spec, path):
            yield Fault(f"spec.{path}", "Required value")
    for part in ("devices", "sharedCounters"):
        for index, element in enumerate(spec.get(part) or ()):
            if not element.get("name"):
                yield Fault(f"spec.{part}[{index}].name", "Required value")


def _entry_faults(spec: Object) -> Iterator[Fault]:
    """Claims of a pod without a name."""
    for index, entry in enumerate(spec.get("resourceClaims") or ()):
        if not entry.get("name"):
            yield Fault(f"spec.resourceClaims[{index}].name", "Required value")


def _schema_faults(parsed: ParsedObject) -> list[Fault]:
    unknown = [Fault(name, "unknown field; remove it or correct its spelling") for name in parsed.unknown]
    return [*parsed.mistyped, *unknown, *parsed.faults]


# Workloads


def workload_faults(item: InputObject) -> list[Fault]:
    """Faults of the parts of a workload that its pods depend on: their number and their template."""
    if item.resource == JOBS:
        faults = _schema_faults(parse(type_of(JOBS.kind), item.object))
    else:
        faults = list(_replica_faults(item.object.get("spec")))
    faults = faults or [*_template_faults(at(item.object, "spec.template"))]
    return faults or [*_refused_workload(item)]


def _replica_faults(spec: Any) -> Iterator[Fault]:
    if not isinstance(spec, dict):
        yield Fault("spec", f"must be an object, found {_shorten(spec)}")
        return
    if not isinstance(spec.get("ordinals") or {}, dict):
        yield Fault("spec.ordinals", f"must be an object, found {_shorten(spec['ordinals'])}")
    for name in ("replicas", "ordinals.start"):
        value = at(spec, name)
        if value is not None and (not isinstance(value, int) or value < 0):
            yield Fault(f"spec.{name}", f"must be a non-negative integer, found {_shorten(value)}")


def _refused_workload(item: InputObject) -> Iterator[Fault]:
    """Faults for which the API server refuses a workload with a valid template: its selector, and its restart
    policy."""
    spec = item.object["spec"]
    template = spec["template"]
    policy = template["spec"].get("restartPolicy") or "Always"
    if item.resource == JOBS:
        if policy == "Always":
            yield Fault("spec.template.spec.restartPolicy", "Required value; give Never or OnFailure")
        return
    if policy != "Always":
        yield Fault("spec.template.spec.restartPolicy", f"unsupported value: {policy!r}; use Always, or leave it out")
    labels = (template.get("metadata") or {}).get("labels") or {}
    parsed = parse(_spec_type("selector"), spec.get("selector") or {})
    faults = [Fault(f"spec.selector.{it.field}".rstrip("."), it.message) for it in _schema_faults(parsed)]
    yield from faults
    selector = label_selector_from(parsed.value if not faults else None)
    if not faults and not (selector and selector.requirements):
        yield Fault("spec.selector", "Required value; add matchLabels with labels of spec.template.metadata")
    elif selector and not selector.selects(labels):
        remedy = "give the template the labels of spec.selector"
        yield Fault("spec.template.metadata.labels", f"not selected by spec.selector: {_shorten(labels)}; {remedy}")


def _template_faults(raw: Any) -> Iterator[Fault]:
    parsed = parse(_spec_type("template"), raw)
    template = parsed.value
    faults = _schema_faults(parsed)
    if not faults and at(template, "spec") is None:
        faults = [Fault("spec", "Required value")]
    if not faults:
        write = Write({"metadata": {}, "spec": template["spec"]}, None, "", "")
        pods.POD_RULES.default(write)
        faults = [*pods.POD_RULES.faults(write), *_entry_faults(template["spec"])]
    for fault in faults:
        yield Fault(f"spec.template.{fault.field}".rstrip("."), fault.message)


def _spec_type(name: str) -> FieldType:
    """The type of a field of a Job's spec; the other workloads have it, too."""
    spec = child(type_of(JOBS.kind), "spec")
    found = child(spec, name) if spec else None
    assert found is not None
    return found


def pod_of_template(template: Object) -> Object:
    """The metadata and spec of a pod created from a valid template, with the API server's defaults."""
    copied = parse(_spec_type("template"), template).value
    pod: Object = {"metadata": copied.get("metadata") or {}, "spec": copied["spec"]}
    pods.POD_RULES.default(Write(pod, None, "", ""))
    return pod
