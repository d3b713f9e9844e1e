"""What has to be looked at again after a change. Pure."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Changes:
    """The effect of one or more changes of objects on work to be done."""

    pods: dict[str, None] = field(default_factory=dict)
    """Keys of pods to decide about again, in order."""
    claims: dict[str, None] = field(default_factory=dict)
    """Keys of claims to decide about again, in order."""
    freed: bool = False
    """Whether a pod that no node could take before might be placed now."""
    unreadable: list[str] = field(default_factory=list)
    """``<kind> <key>: <error>`` of each object that cannot be decoded; such objects are ignored."""

    def add(self, later: "Changes") -> None:
        """Take in the effect of later changes."""
        self.pods.update(later.pods)
        self.claims.update(later.claims)
        self.freed |= later.freed
        self.unreadable += later.unreadable
