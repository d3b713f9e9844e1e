"""Merges the terms of all members of a gang, or finds their contradictions. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from controller.gangs.gang import Level
from controller.gangs.terms import GangTerms, MemberTerms, SubGroupPolicy
from driver.errors import Fault
from driver.parameters import PlacementPolicy

_MOST_NAMED: Final = 3
"""Most pods that a message names for each of several values."""

Said = Mapping[MemberTerms, Collection[str]]
"""Terms of members, with the keys of the pods that have them."""


def agreed(key: str, said: Said) -> GangTerms | tuple[Fault, ...]:
    """The terms of the gang ``key``; faults if its members contradict each other or if terms are missing."""
    size, minimum = _value(said, lambda one: one.size), _value(said, lambda one: one.minimum)
    sub_groups: tuple[SubGroupPolicy, ...] = _value(said, lambda one: one.sub_groups) or ()
    in_sub_groups = sum(policy.members for policy in sub_groups)
    if in_sub_groups:
        minimum = max(minimum or 0, in_sub_groups)
    levels: tuple[Level, ...] = _value(said, lambda one: one.levels) or ()
    problems = [problem for one in said for problem in (*one.problems, *(one.needs_minimum if minimum is None else ()))]
    faults = [*_contradictions(said), *dict.fromkeys(problems)]
    if not sub_groups:
        remedy = "say gang.subGroup in a claim, or leave it out"
        keys = [level.key for level in levels if level.per_sub_group]
        faults += [Fault("topology", f"{key}: perSubGroup without sub-groups; {remedy}") for key in keys]
    if faults:
        return tuple(faults)
    awaited = "" if minimum is not None else next((one.awaited for one in said if one.awaited), "")
    if size is None and minimum is None and not awaited:
        origins = " and ".join(sorted({one.origin or one.source.value for one in said}))
        message = f"nothing says how many members the gang has ({origins}); set it in a member's PlacementConfig"
        return (Fault("gang.minAvailable", message),)
    if size is not None and minimum is not None and minimum > size:
        message = f"{minimum} is more than the {size} members that there will be; lower it, or add members"
        return (Fault("gang.subGroup" if minimum == in_sub_groups else "gang.minAvailable", message),)
    return GangTerms(
        key=key,
        uid=_value(said, lambda one: one.uid or None) or key,
        source=next(iter(said)).source,
        minimum=minimum if minimum is not None else size or 1,
        size=size,
        task_minimums=_value(said, lambda one: one.task_minimums) or (),
        sub_groups=sub_groups,
        levels=levels,
        policy=_policy(said),
        moves=bool(_value(said, lambda one: one.moves)),
        awaited=awaited,
    )


def _value(said: Said, read: Callable[[MemberTerms], Any]) -> Any:
    """The one value that the members agree on; None if no member has a value."""
    return next((value for one in said if (value := read(one)) is not None), None)


def _policy(said: Said) -> PlacementPolicy:
    """The policy of the gang; ``binpack`` if members differ, which they may: it also orders the devices of each."""
    policies = {one.policy for one in said if one.policy is not None}
    return policies.pop() if len(policies) == 1 else "binpack"


def _contradictions(said: Said) -> Iterable[Fault]:
    if len(said) == 1:
        return
    readings: Iterable[tuple[str, Callable[[MemberTerms], Any], Callable[[Any], str]]] = (
        ("gang", lambda one: one.source, str),
        ("owner", lambda one: one.uid or None, str),
        ("gang.minAvailable", lambda one: one.minimum, str),
        ("members", lambda one: one.size, str),
        ("gang.subGroup", lambda one: one.sub_groups, _sub_groups_text),
        ("topology", lambda one: one.levels, _levels_text),
        ("gang.onDomainLoss", lambda one: one.moves, lambda moves: "move" if moves else "wait"),
    )
    for field, read, text in readings:
        pods: dict[Any, list[str]] = {}
        for one, keys in said.items():
            if (value := read(one)) is not None:
                pods.setdefault(value, []).extend(keys)
        if len(pods) > 1:
            values = sorted(f"{text(value)} ({_names(keys)})" for value, keys in pods.items())
            yield Fault(field, f"members contradict each other: {'; '.join(values)}; let all say the same")


def _names(keys: Collection[str]) -> str:
    named = sorted(keys)[:_MOST_NAMED]
    more = len(keys) - len(named)
    return f"pod {', '.join(named)}" + (f" and {more} more" if more else "")


def _sub_groups_text(policies: tuple[SubGroupPolicy, ...]) -> str:
    return ", ".join(f"{one.minimum} of {one.size} by {' and '.join(one.keys) or 'no label'}" for one in policies)


def _levels_text(levels: tuple[Level, ...]) -> str:
    return ", ".join(_level_text(level) for level in levels) or "none"


def _level_text(level: Level) -> str:
    group = f" in groups of {level.group_size}" if level.group_size else ""
    group = " per sub-group" if level.per_sub_group else group
    wait = f" after {level.wait_seconds} s" if level.wait_seconds else ""
    return f"{'required' if level.required else 'preferred'} {level.key}{group}{wait}"
