"""The rules of a kind beyond its schema: defaults, what a write may change, and what is invalid."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.errors import Fault
from driver.kube.api import Object, Resource
from memoryapi.versions import V1_37, Version

SelectableFields = Mapping[str, tuple[str, ...]]

COMMON_FIELDS: SelectableFields = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}


def selectable(*names: str) -> SelectableFields:
    """The common fields and these; the name of each is its path in the object."""
    return {**COMMON_FIELDS, **{name: tuple(name.split(".")) for name in names}}


@dataclass(frozen=True, slots=True)
class Write:
    """One write. ``old`` is None for a new object. ``new`` may be changed, ``old`` must not."""

    new: Object
    old: Object | None
    subresource: str
    now: str
    admin_namespace: bool = False
    """Whether the object's namespace allows admin access to devices."""
    kubernetes: Version = V1_37
    """The version whose rules the write has to meet."""


def _no_defaults(_: Write) -> None:
    return None


def _no_faults(_: Write) -> Iterable[Fault]:
    return ()


@dataclass(frozen=True, slots=True)
class KindRules:
    """The rules of one kind."""

    resource: Resource
    fields: SelectableFields = field(default_factory=lambda: COMMON_FIELDS)
    has_status: bool = False
    keeps_status_on_create: bool = False
    status_resets_metadata: bool = False
    """Whether a write to /status changes nothing in metadata; otherwise it changes labels and annotations."""
    counts_generation: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    name_is_label: bool = False
    default: Callable[[Write], None] = _no_defaults
    """Sets the defaults that the API server sets."""
    faults: Callable[[Write], Iterable[Fault]] = _no_faults
    """The faults for which the API server answers 422."""
    grace: Callable[[Object, int | None], int] | None = None
    """Seconds from a request to delete the object to its removal, given the requested grace period. An object of such a
    kind is always marked for deletion before it is removed, even if the period is 0."""


def immutable(write: Write, path: str) -> Iterable[Fault]:
    """A fault if ``path`` (such as ``spec.driver``) differs from the old object."""
    if write.old is not None and at(write.new, path) != at(write.old, path):
        yield Fault(path, f"Invalid value: {at(write.new, path)!r}: field is immutable")


def at(obj: Object | None, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
