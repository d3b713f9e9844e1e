"""Rules for single fields of resource.k8s.io/v1, such as names and keys. Each yields the faults of its value."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from driver import limits
from driver.cel import SelectorError
from driver.cel.estimation import check_admission
from driver.errors import Fault
from driver.kube.api import Object
from driver.quantity import Quantity
from driver.semver import MAX_DIGITS, is_semver, numbers_fit
from memoryapi.versions import V1_38, Version

_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_TOLERATION_EFFECTS = ("", "NoSchedule", "NoExecute")
_MAX_EXPRESSION = 10 * 1024


def invalid(path: str, value: Any, why: str) -> Fault:
    """The fault of a value that is set and not valid."""
    return Fault(path, f"Invalid value: {value!r}: {why}")


def required(path: str) -> Fault:
    """The fault of a value that is missing."""
    return Fault(path, "Required value")


def _pattern(path: str, value: Any, pattern: re.Pattern[str], longest: int, what: str) -> Iterator[Fault]:
    if not value:
        yield required(path)
    elif not pattern.fullmatch(value) or len(value) > longest:
        yield invalid(path, value, f"must be {what} of at most {longest} characters")


def dns_label(path: str, value: Any) -> Iterator[Fault]:
    """Lower case letters, digits and dashes: devices, requests, counters."""
    return _pattern(path, value, limits.DNS_LABEL, limits.MAX_DNS_LABEL, "a lowercase RFC 1123 label")


def dns_subdomain(path: str, value: Any) -> Iterator[Fault]:
    """Labels with dots between them: device classes."""
    return _pattern(path, value, limits.DNS_SUBDOMAIN, limits.MAX_DNS_SUBDOMAIN, "a lowercase RFC 1123 subdomain")


def driver_name(path: str, value: Any) -> Iterator[Fault]:
    """A subdomain of at most 63 characters, in upper or lower case."""
    return _pattern(
        path, value and value.lower(), limits.DNS_SUBDOMAIN, limits.MAX_DRIVER_NAME, "a driver's name: a subdomain"
    )


def pool_name(path: str, value: Any) -> Iterator[Fault]:
    """Subdomains separated by slashes."""
    if not value:
        yield required(path)
    elif len(value) > limits.MAX_DNS_SUBDOMAIN or not all(
        limits.DNS_SUBDOMAIN.fullmatch(part) for part in value.split("/")
    ):
        yield invalid(path, value, "must be subdomains separated by slashes, of at most 253 characters")


def qualified_name(path: str, value: str, kubernetes: Version, *, domain_required: bool = False) -> Iterator[Fault]:
    """The names of attributes and capacities: a C identifier with an optional domain and slash before it.

    Kubernetes 1.37 takes whatever has more than one slash.
    """
    domain, slash, name = value.rpartition("/")
    if "/" in domain:
        if kubernetes >= V1_38:
            yield invalid(path, value, "must not contain more than one slash")
        return
    if slash:
        yield from driver_name(path, domain)
    elif domain_required:
        yield invalid(path, value, "must include a domain")
    yield from _pattern(path, name, limits.C_IDENTIFIER, limits.MAX_C_IDENTIFIER, "a C identifier")


def label_key(path: str, value: Any) -> Iterator[Fault]:
    """The keys of taints and binding conditions: as those of labels."""
    domain, slash, name = (value or "").rpartition("/")
    if slash:
        yield from dns_subdomain(path, domain)
    yield from _pattern(path, name, _NAME_PART, 63, "a qualified name")


def share_id(path: str, value: str) -> Iterator[Fault]:
    """A lower-case UUID."""
    if not _UUID.fullmatch(value):
        yield invalid(path, value, "must be a UUID in lower case with dashes")


def version(path: str, value: str, kubernetes: Version) -> Iterator[Fault]:
    """Semantic Versioning 2.0.0, strictly; since Kubernetes 1.38 with numbers that every program can read."""
    if not is_semver(value):
        yield invalid(path, value, "must be a semantic version with three numbers and no leading zeros")
    elif kubernetes >= V1_38 and not numbers_fit(value):
        yield invalid(path, value, f"must have at most {MAX_DIGITS} digits in each number")


def amounts(path: str, values: Mapping[str, str], kubernetes: Version) -> Iterator[Fault]:
    """Amounts of capacities by name: what a request asks for, what an allocation consumes. 1.37 checks none of it."""
    if kubernetes < V1_38:
        return
    for name, value in values.items():
        yield from qualified_name(path, name, kubernetes)
        if Quantity.parse(value) < Quantity(0):
            yield invalid(f"{path}[{name}]", value, "must be greater than or equal to 0")


def at_most(path: str, items: Sequence[Any] | Mapping[str, Any], most: int) -> Iterator[Fault]:
    """At most ``most`` items."""
    if len(items) > most:
        yield Fault(path, f"Too many: {len(items)}: must have at most {most} items")


def distinct(path: str, values: Sequence[Any], field: str = "") -> Iterator[Fault]:
    """No value occurs twice; ``field`` is the field of the items at ``path`` that has the values."""
    for i, value in enumerate(values):
        if value in values[:i]:
            yield Fault(f"{path}[{i}]{field}", f"Duplicate value: {value!r}")


def one_of(path: str, value: Any, choices: Sequence[str]) -> Iterator[Fault]:
    """One of the values of an enumeration."""
    if not value and "" not in choices:
        yield required(path)
    elif (value or "") not in choices:
        yield Fault(path, f"Unsupported value: {value!r}: supported values: {', '.join(filter(None, choices))}")


def node_selector(path: str, selector: Object) -> Iterator[Fault]:
    """At least one term."""
    if not selector.get("nodeSelectorTerms"):
        yield required(f"{path}.nodeSelectorTerms")


def selectors(path: str, items: Sequence[Object]) -> Iterator[Fault]:
    """CEL expressions that compile. One that our evaluator does not support is not a fault."""
    yield from at_most(path, items, 32)
    for i, item in enumerate(items):
        where = f"{path}[{i}].cel"
        if "cel" not in item:
            yield required(where)
            continue
        expression = item["cel"].get("expression", "")
        if not expression:
            yield required(f"{where}.expression")
        elif len(expression) > _MAX_EXPRESSION:
            yield Fault(f"{where}.expression", f"Too long: may not be more than {_MAX_EXPRESSION} bytes")
        elif problem := _compilation(expression):
            yield invalid(f"{where}.expression", expression, f"compilation failed: {problem}")


@lru_cache(maxsize=1024)
def _compilation(expression: str) -> str:
    try:
        check_admission(expression)
    except SelectorError as error:
        return "" if error.unsupported else str(error)
    return ""


def tolerations(path: str, items: Sequence[Object]) -> Iterator[Fault]:
    """Device tolerations."""
    for i, item in enumerate(items):
        where = f"{path}[{i}]"
        if item.get("key"):
            yield from label_key(f"{where}.key", item["key"])
        yield from one_of(f"{where}.operator", item.get("operator", "Equal"), ("Equal", "Exists"))
        yield from one_of(f"{where}.effect", item.get("effect", ""), _TOLERATION_EFFECTS)
        if item.get("operator") == "Exists" and item.get("value"):
            yield invalid(f"{where}.value", item["value"], "must be empty for operator Exists")


def conditions(path: str, items: Sequence[Object], most: int) -> Iterator[Fault]:
    """Conditions (metav1.Condition), of distinct types."""
    yield from at_most(path, items, most)
    yield from distinct(path, [item.get("type") for item in items], ".type")
    for i, item in enumerate(items):
        yield from label_key(f"{path}[{i}].type", item.get("type"))
        yield from one_of(f"{path}[{i}].status", item.get("status"), ("True", "False", "Unknown"))
        for name in ("lastTransitionTime", "reason"):
            if not item.get(name):
                yield required(f"{path}[{i}].{name}")


def opaque(path: str, config: Object) -> Iterator[Fault]:
    """Opaque configuration for a driver."""
    if "opaque" not in config:
        yield required(f"{path}.opaque")
        return
    yield from driver_name(f"{path}.opaque.driver", config["opaque"].get("driver"))
    if "parameters" not in config["opaque"]:
        yield required(f"{path}.opaque.parameters")


def configs(path: str, items: Sequence[Object], known: set[str], most: int = 32) -> Iterator[Fault]:
    """Configuration entries, whose ``requests`` must be ``known``."""
    yield from at_most(path, items, most)
    for i, item in enumerate(items):
        yield from references(f"{path}[{i}].requests", item.get("requests", ()), known)
        yield from opaque(f"{path}[{i}]", item)


def references(path: str, names: Sequence[str], known: set[str]) -> Iterator[Fault]:
    """Names of requests that exist, without duplicates."""
    yield from at_most(path, names, 32)
    yield from distinct(path, names)
    for i, name in enumerate(names):
        if name not in known:
            yield invalid(f"{path}[{i}]", name, "must be the name of a request in the claim")
