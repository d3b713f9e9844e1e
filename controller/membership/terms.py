"""Terms on which a gang starts: of a pod's claims, of a group, of each member, and of the gang. Pure.

A pod's claims are merged first (``config_of_pod``), then the terms of all members (``agreed``). A term that is None was
not said. Two values for one term are a contradiction, which is told and decides nothing: which pod came first must not
matter. How many members have to be there is a number, or in a gang of groups a ``Quorum``.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from controller.gangs import Level, SubGroup, TaskMinimums, ValueConstraint
from driver.errors import Fault
from driver.label_selectors import LabelSelector, label_selector_from
from driver.limits import first_of
from driver.parameters import (
    Configured,
    GangConstraint,
    PlacementConfig,
    PlacementPolicy,
    SubGroupKind,
    TopologyLevel,
)

_MOST_NAMED: Final = 3
"""Most pods that a message names for each of several values, and most groups that it names as incomplete."""


class Source(StrEnum):
    """Sources of a pod's membership in a gang, in their order: the first that is found counts."""

    CLAIM = "gang.name in the PlacementConfig of a claim"
    POD_GROUP = "PodGroup of scheduling.k8s.io"
    COMPOSITE = "CompositePodGroup of scheduling.k8s.io"
    VOLCANO = "PodGroup of scheduling.volcano.sh"
    COSCHEDULING = "PodGroup of scheduling.x-k8s.io"
    GROVE = "PodGang of scheduler.grove.io"
    KUEUE = "pod group of Kueue"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Forms sub-groups of members, each of which becomes whole or does not start.

    Attributes:
        keys: label keys. Members with the same values of all keys are one sub-group; members without one of the keys
            are in none.
        size: number of members with which a sub-group is whole.
        minimum: number of whole sub-groups that have to start together.
        selector: selects the members that the policy applies to; None for all.
    """

    keys: tuple[str, ...]
    size: int
    minimum: int = 0
    selector: LabelSelector | None = None

    @property
    def members(self) -> int:
        """Number of members that have to start together because of the policy."""
        return self.size * self.minimum

    def name_of(self, labels: Mapping[str, str]) -> str | None:
        """The sub-group of a member with these labels; None if it is in none."""
        values = [labels.get(key, "") for key in self.keys]
        selected = self.selector is None or self.selector.selects(labels)
        return "/".join(values) if selected and all(values) else None


def sub_group_of(policies: Sequence[SubGroupPolicy], labels: Mapping[str, str]) -> SubGroup | None:
    """The sub-group of a member with these labels, by the first policy that has one; None if it is in none."""
    names = ((number, policy.name_of(labels)) for number, policy in enumerate(policies))
    return next(((number, name) for number, name in names if name is not None), None)


@dataclass(frozen=True, slots=True)
class Quorum:
    """Says how much of a group has to be there: members of it, or groups inside it that are complete themselves.

    All methods recurse: who makes one has to bound the depth.

    Attributes:
        name: as messages name the group.
        minimum: number of members, or of complete groups.
        task: the task of its members; "" for a group of groups.
        groups: the groups inside.
    """

    name: str
    minimum: int
    task: str = ""
    groups: tuple["Quorum", ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # The terms of each member have one, and are looked up by hash: that must not take longer with each group.
        object.__setattr__(self, "_hash", hash((self.name, self.minimum, self.task, self.groups)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def fewest(self) -> int:
        """Fewest members with which it is met."""
        if self.task:
            return self.minimum
        fewest = sorted(group.fewest for group in self.groups)
        # Groups that do not exist yet will have a member at least.
        return sum(fewest[: self.minimum]) + max(0, self.minimum - len(fewest))

    @property
    def tasks(self) -> Iterator[str]:
        """The tasks of all members that count."""
        if self.task:
            yield self.task
        for group in self.groups:
            yield from group.tasks

    def is_met(self, there: Mapping[str, int]) -> bool:
        """Whether so many members of each task are enough."""
        if self.task:
            return there.get(self.task, 0) >= self.minimum
        return sum(group.is_met(there) for group in self.groups) >= self.minimum

    def lacking(self, there: Mapping[str, int]) -> str:
        """What is missing if there are so many members of each task, as text; "" if nothing is."""
        if self.is_met(there):
            return ""
        if self.task:
            return f"{there.get(self.task, 0)} of {self.minimum} members of {self.name}"
        incomplete = [text for group in self.groups if (text := group.lacking(there))]
        inside = f" ({first_of(incomplete, _MOST_NAMED)})" if incomplete else ""
        return f"{len(self.groups) - len(incomplete)} of {self.minimum} groups of {self.name} complete{inside}"

    def without(self, members: Mapping[str, int]) -> "Quorum":
        """The same if so many members of each task need not be there any more."""
        if self.task:
            return replace(self, minimum=max(0, self.minimum - members.get(self.task, 0)))
        return replace(self, groups=tuple([group.without(members) for group in self.groups]))


@dataclass(frozen=True, slots=True)
class Group:
    """An object that stands for a gang, or for a group of a gang of groups.

    Attributes:
        key: ``namespace/name``.
        minimum: number of members that have to start together, or of groups that have to be complete in a group of
            groups; None if the group asks for neither.
        levels: None if the object has no topology.
        task_minimums: the same as ``minimum`` for single tasks.
        sub_groups: policies that form sub-groups.
        groups: tasks that are groups of the gang, also those without a minimum.
        parent: key of the group of groups that it is in; "" for none.
        faults: fields that are not supported.
        level_faults: faults of ``levels``, which do not matter if a claim says the levels.
        claims: claims that its pods share, each as the names of the entry and of the ResourceClaim or
            ResourceClaimTemplate.
    """

    key: str
    uid: str
    minimum: int | None
    levels: tuple[Level, ...] | None = None
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    groups: tuple[str, ...] = ()
    parent: str = ""
    faults: tuple[Fault, ...] = ()
    level_faults: tuple[Fault, ...] = ()
    claims: frozenset[tuple[str, str]] = frozenset()


def group_id(source: Source, key: str) -> str:
    """An id of the group, for ``membership.dependencies_of``."""
    return f"{source.name} {key}"


@dataclass(frozen=True, slots=True)
class GangTerms:
    """Terms on which a gang starts, agreed by all members.

    Attributes:
        key: ``namespace/name``.
        uid: uid of the group or owner; the key if the gang has no object.
        source: the source of membership.
        minimum: number of members that have to start together; succeeded members count.
        size: number of members of the whole gang; None if it is not known. Then the gang is complete at its minimum.
        levels: topology levels, outermost first.
        moves: whether later members go to another domain when that of the gang is gone; if not, they wait.
        task_minimums: the same as ``minimum`` for single tasks.
        sub_groups: policies that form sub-groups.
        quorum: how much of a gang of groups has to exist; None for other gangs.
        constraints: values that the members' devices have to have in common, or apart.
        awaited: objects that have to exist before the size is known, as text; "" for none.
    """

    key: str
    uid: str
    source: Source
    minimum: int
    size: int | None = None
    levels: tuple[Level, ...] = ()
    policy: PlacementPolicy = "binpack"
    moves: bool = False
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    quorum: Quorum | None = None
    constraints: tuple[ValueConstraint, ...] = ()
    awaited: str = ""

    @property
    def starts_whole(self) -> bool:
        """Whether all members that exist start together: kube-scheduler schedules them as one."""
        return self.source in (Source.POD_GROUP, Source.COMPOSITE)


@dataclass(frozen=True, slots=True)
class MemberTerms:
    """Terms of one member. None leaves a term to other members.

    Attributes:
        origin: the object or field that names the gang, for messages.
        groups: tasks that are groups of the gang.
        problems: faults that keep the gang from starting.
        needs_minimum: faults that keep all members from starting together, unless a member has a minimum.
        needs_levels: faults of the levels that the group asks for, unless a member has levels.
        awaited: objects that have to exist before the size is known, as text; not needed if a member has a minimum.
    """

    source: Source
    uid: str = ""
    origin: str = ""
    minimum: int | None = None
    size: int | None = None
    task_minimums: TaskMinimums | None = None
    sub_groups: tuple[SubGroupPolicy, ...] | None = None
    groups: tuple[str, ...] | None = None
    quorum: Quorum | None = None
    levels: tuple[Level, ...] | None = None
    constraints: tuple[ValueConstraint, ...] | None = None
    policy: PlacementPolicy | None = None
    moves: bool | None = None
    problems: tuple[Fault, ...] = ()
    needs_minimum: tuple[Fault, ...] = ()
    needs_levels: tuple[Fault, ...] = ()
    awaited: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """The gang of a pod.

    Attributes:
        gang: ``namespace/name``; "" if the pod is in none because of problems of its terms.
        rank: position of the pod in the order of the members; 0 if only its name has one.
        leader: whether it is the leader, which goes beside rank 0.
        run: equal for pods that replace each other; "" if nothing replaces the pod.
        task: the task of the pod in the gang; "" for none.
    """

    gang: str
    terms: MemberTerms
    rank: int = 0
    leader: bool = False
    run: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class ConfiguredGang:
    """The fields of PlacementConfigs that concern a gang. None stands for a field that is not set.

    Attributes:
        gang: whether ``gang`` is set.
        faults: contradictions between several claims of the pod.
    """

    gang: bool = False
    name: str | None = None
    minimum: int | None = None
    levels: tuple[Level, ...] | None = None
    policy: PlacementPolicy | None = None
    moves: bool | None = None
    sub_groups: tuple[SubGroupPolicy, ...] | None = None
    constraints: tuple[ValueConstraint, ...] | None = None
    faults: tuple[Fault, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is set that makes the pod a member of a gang."""
        return self.gang or self.levels is not None


NO_CONFIG = ConfiguredGang()


def config_of_claim(configured: Iterable[Configured]) -> ConfiguredGang:
    """Read the config of one claim. The last config that sets a field counts."""
    fields: dict[str, Any] = {}
    for entry in configured:
        config = entry.parameters
        if not isinstance(config, PlacementConfig):
            continue
        if config.gang is not None:
            fields |= {"gang": True, "name": config.gang.name, "minimum": config.gang.min_available}
            if config.gang.on_domain_loss is not None:
                fields["moves"] = config.gang.on_domain_loss == "move"
            if kinds := config.gang.kinds:
                fields["sub_groups"] = tuple(map(_policy_of_kind, kinds))
            if config.gang.constraints is not None:
                fields["constraints"] = tuple(map(_constraint, config.gang.constraints))
        if config.topology is not None:
            fields["levels"] = tuple(map(_level, config.topology))
        if (policy := config.node_policy or config.policy) != "firstFit":
            fields["policy"] = policy
    return ConfiguredGang(**fields)


def config_of_pod(claims: Sequence[tuple[str, ConfiguredGang]]) -> ConfiguredGang:
    """Merge the configs of all claims of a pod.

    Args:
        claims: key and config of each, in the order of the pod's entries.
    """
    if len(claims) == 1:
        return claims[0][1]
    faults: list[Fault] = []

    def single(field: str, read: Callable[[ConfiguredGang], Any]) -> Any:
        values = {key: value for key, config in claims if (value := read(config)) is not None}
        if len(set(values.values())) > 1:
            remedy = "let one of them say it, or all the same"
            message = f"ResourceClaims of the pod contradict each other: {', '.join(values)}; {remedy}"
            faults.append(Fault(field, message))
        return next(iter(values.values()), None)

    name = single("gang.name", lambda config: config.name)
    minimum = single("gang.minAvailable", lambda config: config.minimum)
    levels = single("topology", lambda config: config.levels)
    moves = single("gang.onDomainLoss", lambda config: config.moves)
    sub_groups = single("gang.subGroup", lambda config: config.sub_groups)
    constraints = single("gang.constraints", lambda config: config.constraints)
    # Policies of claims also order the devices of each, so they may differ. The first is that of the gang.
    policy = next((config.policy for _, config in claims if config.policy is not None), None)
    return ConfiguredGang(
        gang=any(config.gang for _, config in claims),
        name=name,
        minimum=minimum,
        levels=levels,
        policy=policy,
        moves=moves,
        sub_groups=sub_groups,
        constraints=constraints,
        faults=tuple(faults),
    )


def _policy_of_kind(kind: SubGroupKind) -> SubGroupPolicy:
    selector = label_selector_from({"matchLabels": dict(kind.match_labels)}) if kind.match_labels else None
    return SubGroupPolicy((kind.label,), kind.size, kind.min_available, selector)


def _constraint(constraint: GangConstraint) -> ValueConstraint:
    return ValueConstraint(constraint.attribute, constraint.kind, required=constraint.mode == "required")


def _level(level: TopologyLevel) -> Level:
    return Level(
        key=level.key,
        kind="attribute" if level.attribute is not None else "nodeLabel",
        required=level.mode == "required",
        group_size=level.group_size or 0,
        wait_seconds=level.wait_seconds or 0,
        per_sub_group=level.per_sub_group,
    )


Said = Mapping[MemberTerms, Collection[str]]
"""Terms of members, with the keys of the pods that have them."""


def agreed(key: str, said: Said) -> GangTerms | tuple[Fault, ...]:
    """The terms of the gang ``key``; faults if its members contradict each other or if terms are missing."""
    size, minimum = _value(said, lambda terms: terms.size), _value(said, lambda terms: terms.minimum)
    sub_groups: tuple[SubGroupPolicy, ...] = _value(said, lambda terms: terms.sub_groups) or ()
    in_sub_groups = sum(policy.members for policy in sub_groups)
    # Sub-groups that have to start together are so many members that have to; a higher minimum still counts.
    if in_sub_groups:
        minimum = max(minimum or 0, in_sub_groups)
    levels_said: tuple[Level, ...] | None = _value(said, lambda terms: terms.levels)
    levels, level_faults = _for_each_group(levels_said or (), sub_groups, _value(said, lambda terms: terms.groups))
    problems: list[Fault] = []
    for terms in said:
        problems += terms.problems
        problems += terms.needs_minimum if minimum is None else ()
        problems += terms.needs_levels if levels_said is None else ()
    # Like members have equal terms, and with them equal faults: each is told once.
    if faults := (*_contradictions(said), *dict.fromkeys(problems), *level_faults):
        return faults
    # Once a minimum is known, the gang does not wait to hear its size.
    awaited = "" if minimum is not None else next((terms.awaited for terms in said if terms.awaited), "")
    if size is None and minimum is None and not awaited:
        origins = " and ".join(sorted({terms.origin or terms.source.value for terms in said}))
        message = f"nothing says how many members the gang has ({origins}); set it in a member's PlacementConfig"
        return (Fault("gang.minAvailable", message),)
    if size is not None and minimum is not None and minimum > size:
        message = f"{minimum} is more than the {size} members that there will be; lower it, or add members"
        return (Fault("gang.subGroup" if minimum == in_sub_groups else "gang.minAvailable", message),)
    return GangTerms(
        key=key,
        uid=_value(said, lambda terms: terms.uid or None) or key,
        source=next(iter(said)).source,
        minimum=minimum if minimum is not None else size or 1,
        size=size,
        task_minimums=_value(said, lambda terms: terms.task_minimums) or (),
        sub_groups=sub_groups,
        quorum=_value(said, lambda terms: terms.quorum),
        levels=levels,
        constraints=_value(said, lambda terms: terms.constraints) or (),
        policy=_policy(said),
        moves=bool(_value(said, lambda terms: terms.moves)),
        awaited=awaited,
    )


def _for_each_group(
    levels: Sequence[Level], sub_groups: Sequence[SubGroupPolicy], groups: Sequence[str] | None
) -> tuple[tuple[Level, ...], Sequence[Fault]]:
    """The levels, with those for each sub-group as levels for each group where there are no sub-groups, and faults."""
    inner = next((number for number, level in enumerate(levels) if level.per_sub_group), len(levels))
    if sub_groups or inner == len(levels):
        return tuple(levels), ()
    if not groups:
        remedy = "say gang.subGroup or gang.subGroups in a claim, or leave it out"
        keys = [level.key for level in levels if level.per_sub_group]
        return (), [Fault("topology", f"{key}: perSubGroup without sub-groups; {remedy}") for key in keys]
    if sizes := [level.key for level in levels[inner:] if level.group_size]:
        message = f"{sizes[0]}: groupSize inside perSubGroup is not supported in a gang of groups; leave it out"
        return (), [Fault("topology", message)]
    each = frozenset((group, group) for group in groups)
    of_groups = [replace(level, per_sub_group=False, task_groups=each) for level in levels[inner:]]
    return (*levels[:inner], *of_groups), ()


def _value(said: Said, read: Callable[[MemberTerms], Any]) -> Any:
    """The one value that the members agree on; None if no member has a value."""
    return next((value for terms in said if (value := read(terms)) is not None), None)


def _policy(said: Said) -> PlacementPolicy:
    """The policy of the gang; ``binpack`` if members differ, which they may: it also orders the devices of each."""
    policies = {terms.policy for terms in said if terms.policy is not None}
    return policies.pop() if len(policies) == 1 else "binpack"


def _contradictions(said: Said) -> Iterable[Fault]:
    if len(said) == 1:
        return
    readings: Iterable[tuple[str, Callable[[MemberTerms], Any], Callable[[Any], str]]] = (
        ("gang", lambda terms: terms.source, str),
        ("owner", lambda terms: terms.uid or None, str),
        ("gang.minAvailable", lambda terms: terms.minimum, str),
        ("members", lambda terms: terms.size, str),
        ("gang.subGroup", lambda terms: terms.sub_groups, _sub_groups_text),
        ("gang.constraints", lambda terms: terms.constraints, _constraints_text),
        ("topology", lambda terms: terms.levels, _levels_text),
        ("gang.onDomainLoss", lambda terms: terms.moves, lambda moves: "move" if moves else "wait"),
    )
    for name, read, text in readings:
        pods: dict[Any, list[str]] = {}
        for terms, keys in said.items():
            if (value := read(terms)) is not None:
                pods.setdefault(value, []).extend(keys)
        if len(pods) > 1:
            values = sorted(f"{text(value)} ({_names(keys)})" for value, keys in pods.items())
            yield Fault(name, f"members contradict each other: {'; '.join(values)}; let all say the same")


def _names(keys: Collection[str]) -> str:
    return f"pod {first_of(sorted(keys), _MOST_NAMED)}"


def _sub_groups_text(policies: tuple[SubGroupPolicy, ...]) -> str:
    return ", ".join(
        f"{policy.minimum} of {policy.size} by {' and '.join(policy.keys) or 'no label'}{_selected_text(policy)}"
        for policy in policies
    )


def _selected_text(policy: SubGroupPolicy) -> str:
    requirements = policy.selector.requirements if policy.selector else ()
    texts = [f"{one.key} {one.operator} {' or '.join(one.values)}".strip() for one in requirements]
    return f" where {' and '.join(texts)}" if texts else ""


def _constraints_text(constraints: tuple[ValueConstraint, ...]) -> str:
    return ", ".join(f"{'required' if one.required else 'preferred'} {one}" for one in constraints)


def _levels_text(levels: tuple[Level, ...]) -> str:
    return ", ".join(_level_text(level) for level in levels) or "none"


def _level_text(level: Level) -> str:
    group = f" in groups of {level.group_size}" if level.group_size else ""
    group = " per sub-group" if level.per_sub_group else group
    group = f" in {len({name for _, name in level.task_groups})} groups" if level.task_groups else group
    wait = f" after {level.wait_seconds} s" if level.wait_seconds else ""
    return f"{'required' if level.required else 'preferred'} {level.key}{group}{wait}"
