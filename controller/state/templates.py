"""ResourceClaimTemplates: the claims of pods that do not exist yet. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.state.claims import ClaimRecord, record_from
from driver.adoption import is_on_demand
from driver.kube.api import Object
from driver.names import Names


class ClaimTemplates(Mapping[str, ClaimRecord]):
    """All templates by key (``namespace/name``), each as the claim that is made from it, without a uid.

    Attributes:
        readable: whether they may be read. If not, one that is not known here may exist.
    """

    def __init__(self) -> None:
        self.readable = True
        self._templates: dict[str, ClaimRecord] = {}

    def __getitem__(self, key: str) -> ClaimRecord:
        return self._templates[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._templates)

    def __len__(self) -> int:
        return len(self._templates)

    def put(self, made: ClaimRecord) -> bool:
        """Add or replace a template; return whether that changes anything."""
        known = self._templates.get(made.claim.key)
        self._templates[made.claim.key] = made
        return known != made

    def remove(self, key: str) -> bool:
        """Remove a template; return whether it was known."""
        return self._templates.pop(key, None) is not None


@dataclass(frozen=True, slots=True)
class DecodedTemplate:
    """The part of a ResourceClaimTemplate object that is kept.

    Attributes:
        claim: the claim that is made from it.
        made: whether this controller made it, on demand: its name and its label say so.
    """

    claim: ClaimRecord
    made: bool


def is_made_on_demand(obj: Object, names: Names) -> bool:
    """Return whether the controller made the ResourceClaimTemplate object."""
    metadata = obj["metadata"]
    return is_on_demand(metadata["name"]) and names.on_demand in (metadata.get("labels") or {})


def template_from(obj: Object) -> ClaimRecord:
    """Return the claim that is made from a ResourceClaimTemplate object.

    Raises:
        LodeError, KeyError, TypeError, ValueError: the object cannot be decoded.
    """
    metadata = obj["metadata"]
    return record_from(
        {"metadata": {"namespace": metadata["namespace"], "name": metadata["name"]}, "spec": obj["spec"]["spec"]}
    )
