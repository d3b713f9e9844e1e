"""Decodes ResourceQuotas: the limits in memory and cores of cards, and what is wrong with them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controller.quotas.amounts import MEASURES, Amounts
from driver.errors import InvalidInput
from driver.kube.api import Object
from driver.kube.objects import object_key
from driver.limits import listed
from driver.names import Names
from driver.quantity import Quantity

_LONGEST: Final = 100
"""Characters of a value that a fault quotes."""
_MOST_LIMITS: Final = 64
"""Limits of ours in one quota; more are a fault."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The part of a ResourceQuota that is about memory and cores of cards."""

    key: str
    """``namespace/name``."""
    uid: str
    limits: Amounts = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """What is wrong with it, each with the field and the remedy. Such a quota allows nothing."""
    reported: Mapping[str, str] = field(default_factory=dict, compare=False)
    """``status.used`` as the API has it, by name without the driver's domain."""

    @property
    def namespace(self) -> str:
        """The namespace that it limits."""
        return self.key.partition("/")[0]

    @property
    def counts(self) -> bool:
        """True if the quota says something about memory or cores of cards, or if that is not known."""
        return bool(self.limits or self.faults)


def quota_from(obj: Object, names: Names) -> Quota:
    """Return the part of a ResourceQuota that is about cards. What is wrong with that is part of the answer.

    Raises:
        AttributeError, TypeError: the object has not the form of a ResourceQuota.
    """
    spec: Mapping[str, Any] = obj.get("spec") or {}
    hard: Mapping[str, Any] = spec.get("hard") or {}
    prefix = names.attribute("")
    ours = {name.removeprefix(prefix): value for name, value in sorted(hard.items()) if name.startswith(prefix)}
    limits: dict[str, int] = {}
    faults = [*_scope_faults(spec)] if ours else []
    if len(ours) > _MOST_LIMITS:
        faults.append(f"spec.hard: has {len(ours)} names of {names.driver}; write at most {_MOST_LIMITS}")
        ours = {}
    for name, value in ours.items():
        limit = _limit(name, value)
        if isinstance(limit, int):
            limits[name] = limit
        else:
            faults.append(f"spec.hard[{prefix}{name[:_LONGEST]}]: {limit}")
    used: Mapping[str, Any] = (obj.get("status") or {}).get("used") or {}
    reported = {name: str(used[prefix + name])[:_LONGEST] for name in limits if prefix + name in used}
    return Quota(object_key(obj), obj["metadata"].get("uid", ""), limits, tuple(faults), reported)


def unreadable_quota(obj: Object, problem: str) -> Quota:
    """Return a ResourceQuota that cannot be decoded, and so may limit anything."""
    return Quota(object_key(obj), obj["metadata"].get("uid", ""), {}, (f"cannot be decoded: {problem}",))


def _scope_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    remedy = "a quota of memory or cores of cards counts all claims of the namespace; put these names into a quota"
    for name in ("scopes", "scopeSelector"):
        if spec.get(name):
            yield f"spec.{name}: not supported; {remedy} without it"


def _limit(name: str, value: Any) -> int | str:
    """Return the limit in nano-units, or what is wrong with it."""
    measure, _, of_type = name.partition(".")
    if measure not in MEASURES or (name != measure and not of_type):
        return f"unknown; the names are {listed(MEASURES)}, and both with a type, such as memory.H100"
    try:
        limit = Quantity.parse(str(value)).nanos
    except (InvalidInput, ValueError):
        return f"not a quantity: {str(value)[:_LONGEST]}; write a number with an optional suffix, such as 320Gi"
    return limit if limit >= 0 else f"must not be negative: {str(value)[:_LONGEST]}"
