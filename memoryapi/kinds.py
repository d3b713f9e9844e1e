"""What the API knows of each kind beyond its shape: defaults, what a write may change, and what is refused."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.errors import Fault
from driver.kube.api import Object, Resource

Fields = Mapping[str, tuple[str, ...]]

COMMON_FIELDS: Fields = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


def selectable(*names: str) -> Fields:
    """The common fields and these, each found where its name says."""
    return {**COMMON_FIELDS, **{name: tuple(name.split(".")) for name in names}}


@dataclass(frozen=True, slots=True)
class Write:
    """One write being judged. ``old`` is None for a new object; ``new`` is ours to change, ``old`` is not."""

    new: Object
    old: Object | None
    subresource: str
    now: str
    admin_namespace: bool = False
    """Whether the object's namespace allows admin access to devices."""


def _nothing(_: Write) -> None:
    return None


def _no_faults(_: Write) -> Iterable[Fault]:
    return ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind's rules."""

    resource: Resource
    fields: Fields = field(default_factory=lambda: COMMON_FIELDS)
    has_status: bool = False
    keeps_status_on_create: bool = False
    status_resets_metadata: bool = False
    """Whether a write to /status changes nothing in metadata; else labels and annotations pass."""
    counts_generation: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    name_is_label: bool = False
    default: Callable[[Write], None] = _nothing
    """Fills in what the API server fills in."""
    faults: Callable[[Write], Iterable[Fault]] = _no_faults
    """What the API server refuses with 422."""
    grace: Callable[[Object, int | None], int] | None = None
    """Seconds between a request to delete the object and its removal, by what was asked for. A kind that has this is
    first marked as going, and then goes, even with no time between."""


def immutable(write: Write, path: str) -> Iterable[Fault]:
    """A fault if ``path`` (such as ``spec.driver``) differs from the old object."""
    if write.old is not None and at(write.new, path) != at(write.old, path):
        yield Fault(path, f"Invalid value: {at(write.new, path)!r}: field is immutable")


def at(obj: Object | None, path: str) -> Any:
    """What is found at a dotted path; None where nothing is."""
    found: Any = obj
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
