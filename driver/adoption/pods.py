"""Pods of another system, with claims instead of its resources. Pure.

The admission policies of ``manifests/adopt`` do the same in the API server; a contract test compares both.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from driver.adoption.naming import LONGEST_NAME, AdoptedName, can_be_named
from driver.adoption.rules import (
    NO_NUMBER,
    NOT_NAMEABLE,
    TOO_LONG,
    Broken,
    broken_by_amounts,
    broken_by_pod,
    noted_of_init,
)
from driver.adoption.sources import AdoptionSource
from driver.errors import InvalidInput
from driver.quantity import NANO, Quantity

DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Adoption:
    """What becomes of a pod.

    Attributes:
        pod: the pod as it is admitted; as it was if anything is refused.
        templates: the name of the template of each claim, by the name of the entry in ``spec.resourceClaims``.
        refused: why the pod is not admitted; ``field`` is a path in the pod.
        noted: what has another effect than it may seem, or none.
    """

    pod: Mapping[str, Any]
    templates: Mapping[str, str] = field(default_factory=dict)
    refused: Sequence[Broken] = ()
    noted: Sequence[Broken] = ()


@dataclass(slots=True)
class _Container:
    path: str
    entry: str
    body: dict[str, Any]
    amounts: dict[str, int]
    """Positive amounts by resource."""
    first: bool
    """Whether it ends before the others start: an init container that is no sidecar."""


def adopt(pod: Mapping[str, Any], source: AdoptionSource) -> Adoption:
    """Return what becomes of a pod, or of a pod template, in a namespace where pods of the source are adopted.

    Args:
        pod: with ``metadata`` and ``spec``. It is not changed.
    """
    spec = pod.get("spec") or {}
    changed = {**pod, "spec": deepcopy(dict(spec))}
    broken: list[Broken] = []
    containers = _containers(changed["spec"], source, broken)
    if spec.get("nodeName") or not any(_names_any(one.body, source) for one in containers):
        return Adoption(pod)
    texts = _texts(pod.get("metadata") or {}, source)
    asked = [resource for one in containers for resource in one.amounts]
    broken += [_at_metadata(it, pod, source) for it in broken_by_pod(source.rules, asked, texts)]
    said = {name: texts[name] for name in source.words if name in texts}
    broken += [
        _at_metadata(Broken(name, text, NOT_NAMEABLE), pod, source)
        for name, text in said.items()
        if not can_be_named(text)
    ]
    words = {source.words[name]: text for name, text in said.items()}
    templates = _claims(containers, source, words)
    for name in templates.values():
        if len(name) > LONGEST_NAME:
            broken.append(Broken("metadata.annotations", name[:64], TOO_LONG))
    noted = [it for it in broken if it.noted]
    if refused := [it for it in broken if not it.noted]:
        return Adoption(pod, refused=refused, noted=noted)
    entries = [{"name": entry, "resourceClaimTemplateName": name} for entry, name in templates.items()]
    if entries:
        changed["spec"]["resourceClaims"] = [*(spec.get("resourceClaims") or []), *entries]
    for one in containers:
        _take_out(one.body, source)
    if spec.get("schedulerName") in source.schedulers:
        changed["spec"]["schedulerName"] = DEFAULT_SCHEDULER
    return Adoption(changed, templates, noted=noted)


def resources_of(pod: Mapping[str, Any]) -> set[str]:
    """Return the names of all resources that the containers of a pod ask for.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: a field has a value of the wrong type.
    """
    spec = pod["spec"]
    resources = [one.get("resources") or {} for one in (*spec["containers"], *(spec.get("initContainers") or ()))]
    return {name for one in resources for part in ("limits", "requests") for name in one.get(part) or {}}


def _containers(spec: Mapping[str, Any], source: AdoptionSource, broken: list[Broken]) -> list[_Container]:
    found = []
    for kind, letter in (("containers", ""), ("initContainers", "i")):
        for index, body in enumerate(spec.get(kind) or []):
            path = f"spec.{kind}[{index}]"
            first = bool(letter) and body.get("restartPolicy") != "Always"
            amounts = _amounts(body, source, path, broken)
            noted = noted_of_init(source.rules, amounts) if letter else []
            broken += [_at(path, it) for it in noted]
            found.append(_Container(path, f"lode-{source.name}-{letter}{index}", body, amounts, first))
    return found


def _amounts(body: Mapping[str, Any], source: AdoptionSource, path: str, broken: list[Broken]) -> dict[str, int]:
    limits, amounts = _named_by(body), {}
    for resource in (*source.resources, *source.refused):
        if resource not in limits:
            continue
        text = str(limits[resource])
        try:
            quantity = Quantity.parse(text)
        except InvalidInput:
            quantity = Quantity(-1)
        if quantity.nanos < 0 or quantity.nanos % NANO:
            broken.append(_at(path, Broken(resource, text, NO_NUMBER)))
        else:
            amounts[resource] = quantity.value
    broken += [_at(path, it) for it in broken_by_amounts(source.rules, amounts)]
    if any(amounts.get(count) == 0 for count in source.counts):
        amounts = {resource: amount for resource, amount in amounts.items() if resource in source.shared}
    return {resource: amount for resource, amount in amounts.items() if amount and resource not in source.refused}


def _at(path: str, broken: Broken) -> Broken:
    return Broken(f"{path}.resources.limits[{broken.field}]", broken.value, broken.remedy, broken.noted)


def _texts(metadata: Mapping[str, Any], source: AdoptionSource) -> dict[str, str]:
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    written = {output for mark, output in source.outputs.items() if mark in annotations}
    known = {rule.key for rule in source.rules if hasattr(rule, "key")}
    texts = {key: str(labels[key]) for key in source.labels if key in labels}
    texts |= {
        key: str(text)
        for key, text in annotations.items()
        if (key in source.annotations or key in known - set(source.labels)) and key not in written
    }
    return texts


def _at_metadata(broken: Broken, pod: Mapping[str, Any], source: AdoptionSource) -> Broken:
    kind = "labels" if broken.field in source.labels else "annotations"
    if broken.field in ((pod.get("metadata") or {}).get(kind) or {}):
        return Broken(f"metadata.{kind}[{broken.field}]", broken.value, broken.remedy, broken.noted)
    return Broken(f"spec.containers: {broken.field}", broken.value, broken.remedy, broken.noted)


def _claims(containers: Sequence[_Container], source: AdoptionSource, words: Mapping[str, str]) -> dict[str, str]:
    """Refer each container to its claims, and return the names of the templates by entry."""
    templates: dict[str, str] = {}
    apps = [one for one in containers if not one.first]
    own = {one.entry: _own(one, source) for one in containers}
    for one in containers:
        if not own[one.entry]:
            continue
        entry = next((app.entry for app in apps if one.first and _has(own[app.entry], own[one.entry])), one.entry)
        _refer(one.body, entry)
        if entry == one.entry:
            templates[entry] = str(AdoptedName(source.name, own[entry], words))
    for resource in source.shared:
        if total := _over_pod(containers, resource):
            users = [one for one in containers if resource in one.amounts]
            entry = f"lode-{source.name}-gpu"
            for one in users:
                _refer(one.body, entry)
            templates[entry] = str(AdoptedName(source.name, {source.resources[resource]: total}, words))
    return templates


def _own(one: _Container, source: AdoptionSource) -> dict[str, int]:
    return {source.resources[it]: amount for it, amount in one.amounts.items() if it not in source.shared}


def _has(more: Mapping[str, int], less: Mapping[str, int]) -> bool:
    return bool(more) and all(more.get(token, 0) >= amount for token, amount in less.items())


def _over_pod(containers: Sequence[_Container], resource: str) -> int:
    """Init containers run one after the other, and before the rest (Kubernetes' rule for the requests of a pod)."""
    firsts = [one.amounts.get(resource, 0) for one in containers if one.first]
    return max([sum(one.amounts.get(resource, 0) for one in containers if not one.first), *firsts])


def _refer(body: dict[str, Any], entry: str) -> None:
    resources = body["resources"] = dict(body.get("resources") or {})
    resources["claims"] = [*(resources.get("claims") or []), {"name": entry}]


def _names_any(body: Mapping[str, Any], source: AdoptionSource) -> bool:
    return not _named_by(body).keys().isdisjoint(source.every_resource)


def _named_by(body: Mapping[str, Any]) -> dict[str, Any]:
    """The amounts of all resources that a container names; those of the limits come first."""
    resources = body.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def _number(amount: object) -> str:
    """An amount without a suffix; what is no whole number as it is."""
    try:
        quantity = Quantity.parse(str(amount))
    except InvalidInput:
        return str(amount)
    return str(amount) if quantity.nanos % NANO else str(quantity.value)


def _take_out(body: dict[str, Any], source: AdoptionSource) -> None:
    resources = body.get("resources") or {}
    limits = resources.get("limits") or {}
    variables = [
        {"name": variable, "value": _number(limits[it])} for it, variable in source.environment.items() if it in limits
    ]
    if variables:
        body["env"] = [*(body.get("env") or []), *variables]
    for part in ("limits", "requests"):
        if part in resources:
            left = {key: value for key, value in (resources[part] or {}).items() if key not in source.every_resource}
            resources[part] = left
            if not left:
                del resources[part]
