"""Who takes in the objects of a kind, and what has to be looked at again after that. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from controller.quotas import Quota
from controller.state.versions import UndecodedObject
from driver.kube.api import Object, Resource

V = TypeVar("V", contravariant=True)


@dataclass(slots=True)
class Changes:
    """The effect of one or more changes of objects on work to be done."""

    pods: dict[str, None] = field(default_factory=dict)
    """Keys of pods to decide about again, in order."""
    claims: dict[str, None] = field(default_factory=dict)
    """Keys of claims to decide about again, in order."""
    gangs: dict[str, None] = field(default_factory=dict)
    """Keys of gangs of which a member, the terms, or the number of those that have succeeded changed, in order."""
    favoured: dict[str, None] = field(default_factory=dict)
    """Nodes that a pod which no node could take before might be placed on now, in order; "" means any node."""
    bound: dict[str, None] = field(default_factory=dict)
    """Nodes to which a pod was bound, in order."""
    ends: dict[str, None] = field(default_factory=dict)
    """Nodes of pods whose latest end is known now, or is earlier than before, in order."""
    terms: bool = False
    """True if pods came or went that affinity between pods or topology spread looks at, on whichever node."""
    quotas: dict[str, None] = field(default_factory=dict)
    """Namespaces whose quotas may have room now that they had not before, in order."""
    quota_uses: dict[str, None] = field(default_factory=dict)
    """Namespaces whose quotas, or what is used of them, may have changed, in order."""
    others: dict[tuple[Resource, str], None] = field(default_factory=dict)
    """Further objects that somebody has to look at again, by kind and key, in order: templates on demand that came,
    went or are named by other pods than before, and whatever the handlers of features say."""
    invalid_quotas: list[Quota] = field(default_factory=list)
    """Quotas with faults that are new."""
    unreadable: list[UndecodedObject] = field(default_factory=list)
    """The objects that cannot be decoded, each once for each reason. The last known version goes on counting."""

    def favour(self, node: str) -> None:
        """Note that a pod which no node could take before might be placed on ``node`` now; "" means any node."""
        self.favoured[node] = None

    def keys_of(self, resource: Resource) -> list[str]:
        """Return the keys of ``others`` of one kind."""
        return [key for kind, key in self.others if kind == resource]

    def add(self, later: "Changes") -> None:
        """Take in the effect of later changes."""
        for topic in fields(self):
            mine, more = getattr(self, topic.name), getattr(later, topic.name)
            setattr(self, topic.name, mine + more if isinstance(mine, list) else mine | more)


class Handler(Protocol[V]):
    """Keeps the indexes of one kind of object; notes in ``changes`` the objects that have to be looked at again."""

    def on_update(self, value: V, changes: Changes) -> None:
        """Take in an added or updated object.

        Raises:
            LodeError, KeyError, TypeError, ValueError: the object makes no sense.
        """
        ...

    def on_delete(self, key: str, changes: Changes) -> None:
        """Take in that the object ``key`` was deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """How the objects of one kind are read, and who takes them in.

    Attributes:
        decode: returns the value of an object for the handler. Safe in any thread. Whatever it raises says that the
            object cannot be decoded.
    """

    decode: Callable[[Object], Any]
    handler: Handler[Any]


Kinds = Mapping[Resource, Followed]
"""What is followed: each kind of object with its decoder and its handler."""


@dataclass(slots=True)
class Touched:
    """What has changed since it was taken in last: more than has to be decided about again.

    Attributes:
        pods: keys of pods that have changed, or that may count on another node or in another gang.
        claims: keys of claims.
        gangs: keys of gangs, as of ``Changes``.
    """

    pods: dict[str, None] = field(default_factory=dict)
    claims: dict[str, None] = field(default_factory=dict)
    gangs: dict[str, None] = field(default_factory=dict)

    def add(self, changes: Changes) -> None:
        """Add what changed."""
        self.pods.update(changes.pods)
        self.claims.update(changes.claims)
        self.gangs.update(changes.gangs)

    def take(self) -> "Touched":
        """Return everything so far, and begin anew."""
        taken = Touched(self.pods, self.claims, self.gangs)
        self.pods, self.claims, self.gangs = {}, {}, {}
        return taken
