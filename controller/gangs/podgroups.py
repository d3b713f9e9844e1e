"""PodGroup objects of three APIs as values. Pure.

What cannot be kept is refused by name: a gang that starts otherwise than its author asks is worse than one that waits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from controller.gangs.gang import Level
from controller.gangs.groups import Group
from controller.gangs.hints import TASK
from controller.gangs.terms import Source
from driver.errors import Fault

Json = Mapping[str, Any]
Tiers = Mapping[str, Level]
"""The level that a tier of Volcano's stands for, by its number or name (setting ``controller.volcanoTiers``)."""


class TierName(Protocol):
    """What a tier stands for: one of the two is not ""."""

    @property
    def attribute(self) -> str:
        """Qualified name of a device attribute."""
        ...

    @property
    def node_label(self) -> str:
        """Key of a node label."""
        ...


def tiers_from(said: Mapping[int | str, TierName]) -> Tiers:
    """The tiers of the setting ``controller.volcanoTiers``."""
    return {
        str(name): Level(tier.attribute or tier.node_label, "attribute" if tier.attribute else "nodeLabel")
        for name, tier in said.items()
    }


_PARTITION: Final = "volcano.sh/partition-id"


def group_from(obj: Json, source: Source, tiers: Tiers) -> Group:
    """The group that a PodGroup object of the source's API stands for."""
    read: Mapping[Source, Callable[[Json, Json, Tiers], Group]] = {
        Source.POD_GROUP: _kubernetes,
        Source.VOLCANO: _volcano,
        Source.COSCHEDULING: _coscheduling,
    }
    return read[source](obj["metadata"], obj.get("spec") or {}, tiers)


def _group(metadata: Json, minimum: int | None, levels: Sequence[Level] = (), faults: Iterable[Fault] = ()) -> Group:
    key = f"{metadata['namespace']}/{metadata['name']}"
    named = tuple(Fault(f"PodGroup {key}: {fault.field}", fault.message) for fault in faults)
    return Group(key, metadata["uid"], minimum or None, tuple(levels) or None, faults=named)


def _kubernetes(metadata: Json, spec: Json, _: Tiers) -> Group:
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    keys = [one["key"] for one in (spec.get("schedulingConstraints") or {}).get("topology") or ()]
    faults = []
    if parent := spec.get("parentCompositePodGroupName"):
        message = f"{parent}: groups of groups are not supported; let all pods name one PodGroup"
        faults.append(Fault("spec.parentCompositePodGroupName", message))
    minimum = gang["minCount"] if gang else None
    group = _group(metadata, minimum, [Level(key, "nodeLabel") for key in keys], faults)
    entries = spec.get("resourceClaims") or ()
    claims = [(one["name"], one.get("resourceClaimTemplateName") or one.get("resourceClaimName")) for one in entries]
    return replace(group, claims=frozenset((name, source) for name, source in claims if source))


def _coscheduling(metadata: Json, spec: Json, _: Tiers) -> Group:
    return _group(metadata, spec.get("minMember"))


def _volcano(metadata: Json, spec: Json, tiers: Tiers) -> Group:
    levels, faults = _tier(spec.get("networkTopology"), "spec.networkTopology", tiers, 0)
    policies = spec.get("subGroupPolicy") or ()
    whole, wrong_minimums = _in_whole_groups(policies)
    faults += wrong_minimums
    for number, policy in enumerate(policies):
        field = f"spec.subGroupPolicy[{number}]"
        if not policy.get("networkTopology"):
            continue
        if len(policies) > 1 or len(spec.get("minTaskMember") or ()) > 1 or not _by_rank(policy):
            message = "groups other than so many members in the order of ranks are not supported; "
            message += "remove it, and ask for topology with groupSize in the PlacementConfig of a claim"
            faults.append(Fault(field, message))
            continue
        size = policy.get("subGroupSize") or 1
        inner, wrong = _tier(policy["networkTopology"], f"{field}.networkTopology", tiers, size)
        levels, faults = [*levels, *inner], [*faults, *wrong]
    group = _group(metadata, max(spec.get("minMember") or 0, whole), levels, faults)
    tasks = tuple(sorted((task, least) for task, least in (spec.get("minTaskMember") or {}).items() if least > 0))
    # Volcano's gang plugin looks at tasks only if their minimums do not exceed that of the group.
    return replace(group, task_minimums=tasks) if sum(least for _, least in tasks) <= (group.minimum or 0) else group


def _in_whole_groups(policies: Sequence[Json]) -> tuple[int, list[Fault]]:
    """How many members so many whole groups have as have to start; 0 if nothing says it."""
    said = [(number, policy) for number, policy in enumerate(policies) if policy.get("minSubGroups")]
    if len(said) > 1:
        message = "only one policy with a minimum of groups is supported; keep one, or give each policy a PodGroup"
        return 0, [Fault(f"spec.subGroupPolicy[{number}].minSubGroups", message) for number, _ in said[1:]]
    return sum(policy["minSubGroups"] * (policy.get("subGroupSize") or 1) for _, policy in said), []


def _by_rank(policy: Json) -> bool:
    """Whether the groups are those that Volcano's jobs make: the pods of one task, so many at a time."""
    selector = policy.get("labelSelector") or {}
    labels = set(selector.get("matchLabels") or ())
    return (
        labels <= {TASK}
        and not selector.get("matchExpressions")
        and policy.get("matchLabelKeys")
        in (
            None,
            [],
            [_PARTITION],
        )
    )


def _tier(topology: Json | None, field: str, tiers: Tiers, size: int) -> tuple[list[Level], list[Fault]]:
    """The level of the highest tier that members may cross."""
    if not topology:
        return [], []
    name, number = topology.get("highestTierName"), topology.get("highestTierAllowed")
    if not name and number is None:
        return [], []
    tier = str(name or number)
    level = tiers.get(tier)
    if level is None:
        message = (
            f"tier {tier} stands for no attribute or node label; have an operator add it to the setting "
            "controller.volcanoTiers, or ask for topology in the PlacementConfig of a claim"
        )
        return [], [Fault(f"{field}.{'highestTierName' if name else 'highestTierAllowed'}", message)]
    required = topology.get("mode", "hard") == "hard"
    return [Level(level.key, level.kind, required=required, group_size=size)], []
