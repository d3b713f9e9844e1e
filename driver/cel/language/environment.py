"""The DRA environments of Kubernetes: the declared functions with their overloads, types and device fields.

The scheduler's environment has all functions of its version (`driver.cel.releases`). That of admission (for new
expressions, with default feature gates) does not have the newest, and the type of attributes is Any there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from driver.cel.language import signatures
from driver.cel.language import types as t
from driver.cel.language.types import Type
from driver.cel.releases import BOTH, KubernetesRelease

_SHORT = {
    "duration": t.DURATION,
    "timestamp": t.TIMESTAMP,
    "quantity": t.QUANTITY,
    "semver": t.SEMVER,
    "url": Type("kubernetes.URL"),
    "format": Type("kubernetes.NamedFormat"),
    "ip": Type("net.IP"),
    "cidr": Type("net.CIDR"),
}

_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""In the order of Kubernetes' declarations, which decides the type of a list whose element type is not known."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. ``name`` is cel-go's id of it. The target of a method is the first of ``args``."""

    name: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    open: bool = field(init=False, compare=False, repr=False)
    """Whether it contains type parameters."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "open", any(type_.open for type_ in (*self.args, self.result)))


def _parse_type(text: str) -> Type:
    name, _, inner = text.partition("(")
    if inner:
        return Type("optional_type" if name == "optional" else name, tuple(map(_parse_type, _split(inner[:-1]))))
    if len(name) == 1 and name.isupper():
        return t.parameter(name)
    if name.startswith("authz"):
        return Type(f"kubernetes.authorization.{name.removeprefix('authz')}")
    return _SHORT.get(name, Type(name))


def _split(text: str) -> list[str]:
    """The parts of ``text`` between commas that are not in parentheses."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]


_OVERLOAD = re.compile(r"([^\s:]+):(?:([^\s.]+)\.)?\((.*)\)->(\S+)")


def _parse_overload(text: str) -> Overload:
    parts = _OVERLOAD.fullmatch(text)
    assert parts, text
    args = tuple(map(_parse_type, _split(parts[3])))
    target = (_parse_type(parts[2]),) if parts[2] else ()
    return Overload(parts[1], bool(target), target + args, _parse_type(parts[4]))


def _parse_functions(text: str) -> dict[str, tuple[Overload, ...]]:
    entries = re.sub(r"\n +", " ", text.strip()).split("\n")
    return {
        name: tuple(map(_parse_overload, overloads.split()))
        for name, _, overloads in (entry.partition(" ") for entry in entries)
    }


FUNCTIONS: Final[Mapping[str, tuple[Overload, ...]]] = _parse_functions(signatures.FUNCTIONS)
NAMESPACED_FUNCTIONS: Final = frozenset(name for name in FUNCTIONS if "." in name and not name.startswith("_"))
SORT_KEYS: Final = frozenset(_parse_type(name).kind for name in _ORDERED)

TYPE_NAMES: Final = frozenset(
    """
    bool bytes double int uint string list map null_type optional_type type
    google.protobuf.Duration google.protobuf.Timestamp net.IP net.CIDR
    """.split()
)


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may use: the scheduler's language, or admission's for new expressions."""

    release: KubernetesRelease = BOTH
    attribute: Type = t.DYN
    result: Type = t.DYN
    """The type, besides bool, that an expression may have."""
    new: bool = False
    """Whether the expression is not stored yet, so that it must not use the newest functions."""
    allow_multiple: bool = True
    max_length: int | None = None
    """The limit on the bytes of an expression (resource.k8s.io CELSelectorExpressionMaxLength); None for no limit."""

    def field(self, name: str) -> Type | None:
        """The type of ``device.<name>``, or None."""
        match name:
            case "driver":
                return t.STRING
            case "attributes":
                return t.map_of(t.STRING, t.map_of(t.STRING, self.attribute))
            case "capacity":
                return t.map_of(t.STRING, t.map_of(t.STRING, t.QUANTITY))
            case "allowMultipleAllocations" if self.allow_multiple:
                return t.BOOL
        return None

    def overloads(self, function: str) -> tuple[Overload, ...]:
        """The overloads of ``function``; empty if it is not declared."""
        return () if self.lacks(function) else FUNCTIONS.get(function, ())

    def lacks(self, function: str) -> bool:
        """Whether ``function`` is one that other versions of Kubernetes have, or stored expressions."""
        return function in self.release.unknown or (self.new and function in self.release.too_new)


def scheduler(release: KubernetesRelease) -> Environment:
    """How kube-scheduler reads stored expressions, whatever its feature gates."""
    return Environment(release)


def admission(release: KubernetesRelease) -> Environment:
    """How the API server with default gates checks a new expression. It also limits the estimated cost;
    `driver.cel.estimation` does that.
    """
    return Environment(release, attribute=t.ANY, result=t.ANY, new=True, max_length=10 * 1024)


SCHEDULER: Final = scheduler(BOTH)
"""How allocation reads stored expressions: by the stricter of the rules of all versions."""

ADMISSION: Final = admission(BOTH)
"""New expressions that every version accepts."""
