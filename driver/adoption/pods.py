"""Pods of another system, with claims instead of its resources. Pure.

The admission policies of ``manifests/adopt`` do the same in the API server; a contract test compares both.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from driver.adoption.naming import LONGEST_NAME, AdoptedName, can_be_named
from driver.adoption.rules import (
    BLANKS,
    NO_NUMBER,
    NOT_NAMEABLE,
    PRIVILEGED,
    RAISED,
    TOO_LONG,
    UNEQUAL,
    Broken,
    OnlyKnown,
    broken_by_amounts,
    broken_by_pod,
    broken_by_text,
    noted_of_amounts,
)
from driver.adoption.sources import AdoptionSource
from driver.adoption.turns import AskingContainer, plan
from driver.errors import InvalidInput
from driver.names import DEFAULT_SCHEDULER
from driver.quantity import NANO, Quantity


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
    app: bool
    """Whether it is no init container."""
    ends: bool
    """Whether it ends before the others start: an init container that is no sidecar."""


def adopt(pod: Mapping[str, Any], source: AdoptionSource, *, named: bool = True) -> Adoption:
    """Return what becomes of a pod, or of a pod template, in a namespace where pods of the source are adopted.

    The policies also write what is noted into an annotation of the pod, so that a warning can say it.

    Args:
        pod: with ``metadata`` and ``spec``. It is not changed.
        named: whether the names of the templates are used in a cluster, so that they have a greatest length.
    """
    spec = pod.get("spec") or {}
    changed = {**pod, "spec": deepcopy(dict(spec))}
    broken: list[Broken] = []
    containers = _containers(changed["spec"], source, broken)
    if spec.get("nodeName") or not any(_names_any(one.body, source) for one in containers):
        return Adoption(pod)
    texts = _texts(pod.get("metadata") or {}, source)
    asked = [resource for one in containers for resource in one.amounts]
    broken += [_at(one.path, it) for one in containers for it in broken_by_text(source.rules, one.amounts, texts)]
    broken += [_at_metadata(it, pod, source) for it in broken_by_pod(source.rules, asked, texts)]
    said = {name: _trimmed(name, texts[name], source) for name in source.words if name in texts}
    broken += [
        _at_metadata(Broken(name, texts[name], NOT_NAMEABLE), pod, source)
        for name, text in said.items()
        if not can_be_named(text)
    ]
    words = {source.words[name]: text for name, text in said.items()}
    templates, raised = _claims(containers, source, words)
    broken += raised
    if named and any(len(name) > LONGEST_NAME for name in templates.values()):
        broken.append(_too_long(pod, source))
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
            ends = bool(letter) and body.get("restartPolicy") != "Always"
            broken += _unequal(body, source, path)
            amounts = _amounts(body, source, path, broken, init=bool(letter))
            entry = f"lode-{source.name}-{letter}{index}"
            found.append(_Container(path, entry, body, amounts, app=not letter, ends=ends))
    return found


def _amounts(
    body: Mapping[str, Any], source: AdoptionSource, path: str, broken: list[Broken], *, init: bool
) -> dict[str, int]:
    limits, amounts = _named_by(body), {}
    for resource in source.taken(limits):
        if resource in source.environment:
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
    wanted = {
        resource: amount for resource, amount in amounts.items() if amount and not source.counts_nothing(resource)
    }
    if any(amounts.get(count) == 0 for count in source.counts):
        wanted = {resource: amount for resource, amount in wanted.items() if resource in source.shared}
    if wanted:
        broken += [_at(path, it) for it in noted_of_amounts(source.rules, amounts, init=init)]
    return wanted


def _unequal(body: Mapping[str, Any], source: AdoptionSource, path: str) -> list[Broken]:
    """Requests that Kubernetes would refuse: they differ from the limits."""
    resources = body.get("resources") or {}
    limits, requests = (resources.get(part) or {} for part in ("limits", "requests"))
    return [
        Broken(f"{path}.resources.requests[{it}]", str(requests[it]), UNEQUAL)
        for it in source.taken(requests)
        if _number(requests[it]) != _number(limits.get(it, ""))
    ]


def _trimmed(key: str, text: str, source: AdoptionSource) -> str:
    if key not in source.trimmed:
        return text
    return ",".join(entry.strip(BLANKS) for entry in text.split(","))


def _too_long(pod: Mapping[str, Any], source: AdoptionSource) -> Broken:
    """What to shorten: the longest annotation."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    found = [key for key in source.annotations if key in annotations]
    if not found:
        return Broken("spec.containers", "", TOO_LONG)
    longest = max(found, key=lambda key: len(str(annotations[key])))
    return Broken(f"metadata.annotations[{longest}]", str(annotations[longest]), TOO_LONG)


def _at(path: str, broken: Broken) -> Broken:
    return Broken(f"{path}.resources.limits[{broken.field}]", broken.value, broken.remedy, broken.noted)


def _texts(metadata: Mapping[str, Any], source: AdoptionSource) -> dict[str, str]:
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    written = {output for mark, output in source.outputs.items() if mark in annotations}
    known = {rule.key for rule in source.rules if hasattr(rule, "key")}
    prefixes = tuple(rule.prefix for rule in source.rules if isinstance(rule, OnlyKnown))
    texts = {key: str(labels[key]) for key in source.labels if key in labels}
    texts |= {
        key: str(text)
        for key, text in annotations.items()
        if (key in source.annotations or key in known - set(source.labels) or key.startswith(prefixes))
        and key not in written
    }
    return texts


def _at_metadata(broken: Broken, pod: Mapping[str, Any], source: AdoptionSource) -> Broken:
    kind = "labels" if broken.field in source.labels else "annotations"
    if broken.field in ((pod.get("metadata") or {}).get(kind) or {}):
        return Broken(f"metadata.{kind}[{broken.field}]", broken.value, broken.remedy, broken.noted)
    return Broken(f"spec.containers: {broken.field}", broken.value, broken.remedy, broken.noted)


def _claims(
    containers: Sequence[_Container], source: AdoptionSource, words: Mapping[str, str]
) -> tuple[dict[str, str], list[Broken]]:
    """Refer each container to its claims; the names of the templates by entry, and what is noted."""
    planned = plan([AskingContainer(it.entry, _own(it, source), it.app, it.ends) for it in containers], source)
    for one, entries in zip(containers, planned.uses, strict=True):
        for entry in entries:
            _refer(one.body, entry)
    amounts = dict(planned.amounts)
    for resource in source.shared:
        if total := _over_pod(containers, resource):
            entry = f"lode-{source.name}-gpu"
            for one in (it for it in containers if resource in it.amounts):
                _refer(one.body, entry)
            amounts[entry] = {resource: total}
    templates = {
        entry: str(AdoptedName(source.name, {source.token(it): amount for it, amount in wanted.items()}, words))
        for entry, wanted in amounts.items()
    }
    noted = [
        Broken(f"{one.path}.resources", "", RAISED, noted=True) for one in containers if one.entry in planned.raised
    ]
    if planned.parts or not source.shared.isdisjoint(resource for one in containers for resource in one.amounts):
        noted += [
            Broken(f"{one.path}.securityContext.privileged", "true", PRIVILEGED, noted=True)
            for one in containers
            if (one.body.get("securityContext") or {}).get("privileged") is True
        ]
    return templates, noted


def _own(one: _Container, source: AdoptionSource) -> dict[str, int]:
    return {it: amount for it, amount in one.amounts.items() if it not in source.shared}


def _over_pod(containers: Sequence[_Container], resource: str) -> int:
    """The most that is used at a time: sidecars run from their start to the end."""
    most, sidecars = 0, 0
    for one in (it for it in containers if not it.app):
        amount = one.amounts.get(resource, 0)
        most = max(most, sidecars + amount)
        sidecars += 0 if one.ends else amount
    return max(most, sidecars + sum(one.amounts.get(resource, 0) for one in containers if one.app))


def _refer(body: dict[str, Any], entry: str) -> None:
    resources = body["resources"] = dict(body.get("resources") or {})
    resources["claims"] = [*(resources.get("claims") or []), {"name": entry}]


def _names_any(body: Mapping[str, Any], source: AdoptionSource) -> bool:
    return bool(source.taken(_named_by(body)))


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
            taken = source.taken(resources[part] or ())
            left = {key: value for key, value in (resources[part] or {}).items() if key not in taken}
            resources[part] = left
            if not left:
                del resources[part]
