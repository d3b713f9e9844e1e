"""Collects what has to be looked at again after a change. Pure."""

from dataclasses import dataclass, field

from controller.quotas import Quota
from controller.state.unreadable import UnreadableObject


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
    queued: dict[str, None] = field(default_factory=dict)
    """Keys of Workloads of Kueue that may wait for an answer, in order."""
    checks: dict[str, None] = field(default_factory=dict)
    """Names of AdmissionChecks of Kueue that have changed, in order."""
    templates: dict[str, None] = field(default_factory=dict)
    """Keys of templates on demand that exist now or do not any more, or that other pods name than before, in order."""
    invalid_quotas: list[Quota] = field(default_factory=list)
    """Quotas with faults that are new."""
    unreadable: list[UnreadableObject] = field(default_factory=list)
    """The objects that cannot be decoded, each once for each reason. The last known version goes on counting."""

    def favour(self, node: str) -> None:
        """Note that a pod which no node could take before might be placed on ``node`` now; "" means any node."""
        self.favoured[node] = None

    def add(self, later: "Changes") -> None:
        """Take in the effect of later changes."""
        self.pods.update(later.pods)
        self.claims.update(later.claims)
        self.gangs.update(later.gangs)
        self.favoured.update(later.favoured)
        self.bound.update(later.bound)
        self.ends.update(later.ends)
        self.terms |= later.terms
        self.quotas.update(later.quotas)
        self.quota_uses.update(later.quota_uses)
        self.queued.update(later.queued)
        self.checks.update(later.checks)
        self.templates.update(later.templates)
        self.invalid_quotas += later.invalid_quotas
        self.unreadable += later.unreadable


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

    def note(self, changes: Changes) -> None:
        """Add what changed."""
        self.pods.update(changes.pods)
        self.claims.update(changes.claims)
        self.gangs.update(changes.gangs)

    def take(self) -> "Touched":
        """Return everything so far, and begin anew."""
        taken = Touched(self.pods, self.claims, self.gangs)
        self.pods, self.claims, self.gangs = {}, {}, {}
        return taken
