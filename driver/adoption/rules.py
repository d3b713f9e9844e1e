"""Rules for the requests of a source: what is refused or only noted, with the remedy. Pure.

The rules are data: the admission policies are generated from the same values.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.adoption.naming import LONGEST_NAME

MOST_DEVICES: Final = 32
"""Devices of one claim (resource.k8s.io/v1, AllocationResultsMaxSize)."""
MOST_MIB: Final = 4 * 1024 * 1024
"""Memory in MiB above which an amount was meant in bytes: no card has 4 TiB."""
MOST: Final = 9_999_999_999
"""An amount of any resource: names have ten digits for it."""

NO_NUMBER: Final = "write a whole number"
TOO_LARGE: Final = f"write at most {MOST}"
NOT_NAMEABLE: Final = (
    "a name of a template can have letters, digits and - _ . , / : + and spaces of it: change the value"
)
RAISED: Final = (
    "an init container needs more of a card than this container, which gets as much, because claims last as long as "
    "the pod: ask for the same in both"
)
TOO_LONG: Final = (
    f"the whole request must fit in a name of {LONGEST_NAME} characters: shorten the list, or write a "
    "ResourceClaimTemplate, as lode convert does"
)
UNEQUAL: Final = "Kubernetes takes only equal limits and requests of such a resource: write the same amount in limits"
PRIVILEGED: Final = (
    "a privileged container can use every card of the node, and all of it: remove it, or ask for whole cards"
)
BLANKS: Final = " \t\n\r\v\f"
"""Characters that are cut off entries of lists."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An amount that is at most ``most``; 0 means that the container asks for none."""

    resource: str
    most: int
    remedy: str


@dataclass(frozen=True, slots=True)
class NoneOf:
    """Resources whose names match the regular expression, and of which a container asks for none."""

    pattern: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Among:
    """An amount that is one of ``allowed``, or a multiple of ``every``."""

    resource: str
    allowed: tuple[int, ...]
    every: int
    remedy: str


@dataclass(frozen=True, slots=True)
class ReadOtherwise:
    """An amount that is not read as it is written if it is not ``least`` to ``most``. It is noted."""

    resource: str
    least: int
    most: int
    remedy: str


@dataclass(frozen=True, slots=True)
class NeedsText:
    """A resource that means something only if an annotation has a value."""

    resource: str
    key: str
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class NeedsAmount:
    """What each container that asks for any of the resources has to say if an annotation has a value."""

    key: str
    text: str
    resources: tuple[str, ...]
    amount: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ReadHere:
    """An annotation or label that the system does not read, and that counts here. It is noted."""

    key: str
    remedy: str


@dataclass(frozen=True, slots=True)
class OnlyKnown:
    """Annotations whose keys begin with the prefix are ``known``, or have no effect. It is noted."""

    prefix: str
    known: frozenset[str]
    remedy: str


@dataclass(frozen=True, slots=True)
class NotTogether:
    """Two resources of which a pod may ask for one only."""

    resources: tuple[str, str]
    remedy: str


@dataclass(frozen=True, slots=True)
class WholeIfSeveral:
    """Memory of a container that asks for more than one card: at least ``least`` MiB of each, or none is named."""

    count: str
    memory: str
    least: int
    remedy: str


@dataclass(frozen=True, slots=True)
class Values:
    """An annotation or label that has one of the values; without a distinction of upper and lower case."""

    key: str
    allowed: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class NoEmptyEntry:
    """A list in an annotation that has no empty entry. ``noted``: it has no effect, and is not refused."""

    key: str
    remedy: str
    noted: bool = False


@dataclass(frozen=True, slots=True)
class IgnoredInInit:
    """Resources that the system gives no init container; here, it gets them. It is noted."""

    resources: frozenset[str]
    remedy: str


Rule = (
    Bound
    | NoneOf
    | Among
    | ReadOtherwise
    | NeedsText
    | NeedsAmount
    | ReadHere
    | OnlyKnown
    | NotTogether
    | WholeIfSeveral
    | Values
    | NoEmptyEntry
    | IgnoredInInit
)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a pod breaks, and the field that breaks it: a resource, or the key of an annotation or label."""

    field: str
    value: str
    remedy: str
    noted: bool = False


def broken_by_amounts(rules: Iterable[Rule], amounts: Mapping[str, int]) -> list[Broken]:
    """Return the rules that the amounts of one container break.

    Args:
        amounts: by the name of the resource.
    """
    found = []
    for rule in rules:
        match rule:
            case Bound(resource, most, remedy) if amounts.get(resource, 0) > most:
                found.append(Broken(resource, str(amounts[resource]), remedy))
            case NoneOf(pattern, remedy):
                asked = (it for it, amount in amounts.items() if amount and re.fullmatch(pattern, it))
                found += [Broken(it, str(amounts[it]), remedy) for it in asked]
            case Among(resource, allowed, every, remedy) if (amount := amounts.get(resource, 0)) % every:
                if amount not in allowed:
                    found.append(Broken(resource, str(amount), remedy))
            case WholeIfSeveral(count, memory, least, remedy):
                if amounts.get(count, 1) > 1 and 0 < amounts.get(memory, 0) < least:
                    found.append(Broken(memory, str(amounts[memory]), remedy))
            case _:
                pass
    told = {it.field for it in found}
    large = {resource: amount for resource, amount in amounts.items() if amount > MOST and resource not in told}
    return [*found, *(Broken(resource, str(amount), TOO_LARGE) for resource, amount in large.items())]


def noted_of_amounts(rules: Iterable[Rule], amounts: Mapping[str, int], *, init: bool) -> list[Broken]:
    """Return what is noted of a container that asks for devices.

    Args:
        amounts: all that it names, by the name of the resource.
        init: whether it is an init container.
    """
    found = []
    for rule in rules:
        match rule:
            case ReadOtherwise(resource, least, most, remedy) if not least <= amounts.get(resource, least) <= most:
                found.append(Broken(resource, str(amounts[resource]), remedy, noted=True))
            case IgnoredInInit(resources, remedy) if init:
                ignored = {it: amount for it, amount in amounts.items() if amount and it in resources}
                found += [Broken(it, str(amount), remedy, noted=True) for it, amount in ignored.items()]
            case _:
                pass
    return found


def broken_by_text(rules: Iterable[Rule], amounts: Mapping[str, int], texts: Mapping[str, str]) -> list[Broken]:
    """Return the rules that a container breaks because of the texts of its pod.

    Args:
        amounts: positive ones by resource, in the order of the table.
        texts: annotations and labels.
    """
    found = []
    for rule in rules:
        if isinstance(rule, NeedsAmount) and texts.get(rule.key, "").lower() == rule.text:
            asked = [resource for resource in amounts if resource in rule.resources]
            if asked and rule.amount not in asked:
                found.append(Broken(asked[0], str(amounts[asked[0]]), rule.remedy))
    return found


def broken_by_pod(rules: Iterable[Rule], resources: Sequence[str], texts: Mapping[str, str]) -> list[Broken]:
    """Return the rules that a pod as a whole breaks.

    Args:
        resources: what its containers ask for.
        texts: its annotations and labels. Annotations that the system wrote itself are left out.
    """
    found = []
    for rule in rules:
        match rule:
            case NotTogether((one, other), remedy) if one in resources and other in resources:
                found.append(Broken(one, f"with {other}", remedy))
            case Values(key, allowed, remedy) if key in texts and texts[key].lower() not in allowed:
                found.append(Broken(key, texts[key], remedy))
            case NeedsText(resource, key, text, remedy) if resource in resources:
                if texts.get(key, "").lower() != text:
                    found.append(Broken(resource, f"without {key}: {text}", remedy))
            case ReadHere(key, remedy) if key in texts:
                found.append(Broken(key, texts[key], remedy, noted=True))
            case OnlyKnown(prefix, known, remedy):
                unknown = (key for key in texts if key.startswith(prefix) and key not in known)
                found += [Broken(key, texts[key], remedy, noted=True) for key in unknown]
            case NoEmptyEntry(key, remedy, noted) if key in texts and "" in texts[key].split(","):
                found.append(Broken(key, texts[key], remedy, noted))
            case _:
                pass
    return found
