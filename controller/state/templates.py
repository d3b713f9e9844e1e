"""ResourceClaimTemplates: the claims of pods that do not exist yet. Pure.

The name of a template on demand says what it asks for (``driver.adoption``), so it need not exist before a pod. The
pods that name one are known here, and those that this controller made.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.state.changes import Changes
from controller.state.claims import ClaimRecord, record_from
from controller.state.pods import PodView
from driver.adoption import is_on_demand
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, Object
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

    def upsert(self, made: ClaimRecord) -> bool:
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


_NOBODY: Final[Mapping[str, None]] = {}


class TemplatesOnDemand:
    """Templates on demand by key (``namespace/name``).

    Attributes:
        refused: why a template that pods wait for was not made. Changed by its maker only.
    """

    def __init__(self, names: Names) -> None:
        self._gate = names.gate
        self._named: dict[str, tuple[tuple[str, ...], bool]] = {}
        """The templates that a pod names, and whether it waits at our gate."""
        self._users: dict[str, dict[str, None]] = {}
        self._awaiting: dict[str, dict[str, None]] = {}
        self._made: dict[str, dict[str, None]] = {}
        """By namespace."""
        self.refused: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield all that pods name, and all that were made."""
        return iter(dict.fromkeys([*self._users, *(key for made in self._made.values() for key in made)]))

    def is_used(self, key: str) -> bool:
        """Return whether a pod that has not ended names the template."""
        return key in self._users

    def awaiting(self, key: str) -> Collection[str]:
        """Return the pods that name the template and wait at our gate."""
        return self._awaiting.get(key, _NOBODY).keys()

    def made_in(self, namespace: str) -> Collection[str]:
        """Return the templates of the namespace that exist, and that this controller made."""
        return self._made.get(namespace, _NOBODY).keys()

    def is_made(self, key: str) -> bool:
        """Return whether the template exists, and this controller made it."""
        return key in self._made.get(_namespace_of(key), _NOBODY)

    def put_pod(self, pod: PodView, changes: Changes) -> None:
        """Take in a pod that has not ended."""
        named = tuple(
            dict.fromkeys(f"{pod.namespace}/{one.template}" for one in pod.references if is_on_demand(one.template))
        )
        if not named and pod.key not in self._named:
            return
        now = (named, self._gate in pod.gates and not pod.deleting)
        if self._named.get(pod.key) == now:
            return
        self.remove_pod(pod.key, changes)
        if not named:
            return
        self._named[pod.key] = now
        for key in named:
            self._users.setdefault(key, {})[pod.key] = None
            if now[1]:
                self._awaiting.setdefault(key, {})[pod.key] = None
            changes.others[RESOURCE_CLAIM_TEMPLATES, key] = None

    def remove_pod(self, pod: str, changes: Changes) -> None:
        """Take in that a pod has ended, or is gone."""
        named, _ = self._named.pop(pod, ((), False))
        for key in named:
            for index in (self._users, self._awaiting):
                if pods := index.get(key):
                    pods.pop(pod, None)
                    if not pods:
                        del index[key]
            changes.others[RESOURCE_CLAIM_TEMPLATES, key] = None

    def put_template(self, key: str, made: bool, changes: Changes) -> None:
        """Take in a template that exists.

        Args:
            made: whether this controller made it.
        """
        self.remove_template(key, changes)
        if made:
            self._made.setdefault(_namespace_of(key), {})[key] = None

    def remove_template(self, key: str, changes: Changes) -> None:
        """Take in that a template does not exist any more."""
        namespace, _, name = key.partition("/")
        if made := self._made.get(namespace):
            made.pop(key, None)
            if not made:
                del self._made[namespace]
        if is_on_demand(name):
            changes.others[RESOURCE_CLAIM_TEMPLATES, key] = None


def _namespace_of(key: str) -> str:
    return key.partition("/")[0]
