"""PodGroup objects of three APIs as values. Pure.

Fields that are not supported are refused by name: a gang that starts in another way than its author asks is worse than
one that waits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from controller.gangs.gang import Level
from controller.gangs.groups import Group
from controller.gangs.terms import Source, SubGroupPolicy
from driver.errors import Fault
from driver.label_selectors import label_selector_from
from driver.wire import Json
from driver.wire.fields import integer, text, texts

Tiers = Mapping[str, Level]
"""Levels of Volcano's tiers, by number or name of the tier (setting ``controller.volcanoTiers``)."""


class TierName(Protocol):
    """The level of a tier: one of the two fields is not ""."""

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


def group_from(obj: Json, source: Source, tiers: Tiers) -> Group:
    """The value of a PodGroup object of the source's API."""
    read: Mapping[Source, Callable[[Json, Json, Tiers], Group]] = {
        Source.POD_GROUP: _kubernetes,
        Source.VOLCANO: _volcano,
        Source.COSCHEDULING: _coscheduling,
    }
    return read[source](obj["metadata"], obj.get("spec") or {}, tiers)


def _group(metadata: Json, minimum: int | None, levels: Sequence[Level] = (), faults: Iterable[Fault] = ()) -> Group:
    key = f"{metadata['namespace']}/{metadata['name']}"
    named = tuple(Fault(f"PodGroup {key}: {fault.field}", fault.message) for fault in faults)
    return Group(key, text(metadata["uid"]), minimum or None, tuple(levels) or None, faults=named)


def _kubernetes(metadata: Json, spec: Json, _: Tiers) -> Group:
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    keys = [text(one["key"]) for one in (spec.get("schedulingConstraints") or {}).get("topology") or ()]
    faults = []
    if parent := text(spec.get("parentCompositePodGroupName")):
        message = f"{parent}: groups of groups are not supported; let all pods name one PodGroup"
        faults.append(Fault("spec.parentCompositePodGroupName", message))
    minimum = integer(gang["minCount"]) if gang else None
    group = _group(metadata, minimum, [Level(key, "nodeLabel") for key in keys], faults)
    entries = spec.get("resourceClaims") or ()
    claims = [(one["name"], one.get("resourceClaimTemplateName") or one.get("resourceClaimName")) for one in entries]
    return replace(group, claims=frozenset((text(name), text(source)) for name, source in claims if source))


def _coscheduling(metadata: Json, spec: Json, _: Tiers) -> Group:
    return _group(metadata, integer(spec.get("minMember")))


def _volcano(metadata: Json, spec: Json, tiers: Tiers) -> Group:
    levels, faults = _tier(spec.get("networkTopology"), "spec.networkTopology", tiers)
    policies: Sequence[Json] = spec.get("subGroupPolicy") or ()
    # Volcano groups no pod by a policy without label keys.
    sub_groups = tuple([_sub_groups(policy) for policy in policies if policy.get("matchLabelKeys")])
    inner, wrong = _tier_of_sub_groups(policies, tiers)
    levels, faults = [*levels, *inner], [*faults, *wrong, *_without_keys(policies)]
    minimum = max(integer(spec.get("minMember")), sum(one.members for one in sub_groups))
    group = replace(_group(metadata, minimum, levels, faults), sub_groups=sub_groups)
    said = {task: integer(least) for task, least in (spec.get("minTaskMember") or {}).items()}
    tasks = tuple(sorted((task, least) for task, least in said.items() if least > 0))
    # Volcano's gang plugin looks at tasks only if their minimums do not exceed that of the group.
    return replace(group, task_minimums=tasks) if sum(least for _, least in tasks) <= (group.minimum or 0) else group


def _sub_groups(policy: Json) -> SubGroupPolicy:
    return SubGroupPolicy(
        keys=texts(policy["matchLabelKeys"]),
        size=integer(policy.get("subGroupSize")) or 1,
        minimum=integer(policy.get("minSubGroups")),
        selector=label_selector_from(policy.get("labelSelector")),
    )


def _without_keys(policies: Sequence[Json]) -> list[Fault]:
    """Faults for policies that have effects but no label keys, so that they group no pods."""
    message = "missing, so the policy groups no pods; set it to the label that says a pod's sub-group"
    return [
        Fault(f"spec.subGroupPolicy[{number}].matchLabelKeys", message)
        for number, policy in enumerate(policies)
        if not policy.get("matchLabelKeys") and (policy.get("minSubGroups") or policy.get("networkTopology"))
    ]


def _tier_of_sub_groups(policies: Sequence[Json], tiers: Tiers) -> tuple[list[Level], list[Fault]]:
    """The level that keeps each sub-group in one domain, with faults."""
    said = [policy.get("networkTopology") or {} for policy in policies]
    if any(topology != said[0] for topology in said):
        message = "policies with different networkTopology are not supported; let all say the same, or use PodGroups"
        return [], [Fault("spec.subGroupPolicy", message)]
    levels, faults = _tier(said[0] if said else None, "spec.subGroupPolicy[0].networkTopology", tiers)
    return [replace(level, per_sub_group=True) for level in levels], faults


def _tier(topology: Json | None, field: str, tiers: Tiers) -> tuple[list[Level], list[Fault]]:
    """The level of the highest tier that members may cross, with faults."""
    if not topology:
        return [], []
    name, number = text(topology.get("highestTierName")), topology.get("highestTierAllowed")
    if not name and number is None:
        return [], []
    tier = name or str(integer(number))
    level = tiers.get(tier)
    if level is None:
        message = (
            f"tier {tier} stands for no attribute or node label; have an operator add it to the setting "
            "controller.volcanoTiers, or ask for topology in the PlacementConfig of a claim"
        )
        return [], [Fault(f"{field}.{'highestTierName' if name else 'highestTierAllowed'}", message)]
    required = topology.get("mode", "hard") == "hard"
    return [Level(level.key, level.kind, required=required)], []
