"""Why a pod cannot be adopted, as lists of texts in CEL, from the rules of a source. Pure."""

from collections.abc import Sequence

from charts.adoption.cel import literal, matches, shown, trimmed
from driver.adoption.naming import LONGEST_NAME
from driver.adoption.rules import (
    MOST,
    NO_NUMBER,
    NOT_NAMEABLE,
    TOO_LARGE,
    TOO_LONG,
    UNEQUAL,
    Among,
    Bound,
    NeedsAmount,
    NeedsText,
    NoEmptyEntry,
    NoneOf,
    NotTogether,
    Values,
    WholeIfSeveral,
)
from driver.adoption.sources import AdoptionSource


def faults(source: AdoptionSource) -> str:
    """The texts, each with field, value and remedy; none for a pod that is adopted."""
    return " + ".join([_unequal(), *_of_amounts(source), *_of_pod(source), *_of_words(source), _of_names(source)])


def empty_entry(text: str) -> str:
    """Whether the text, a list in an annotation, has an empty entry."""
    return f'"" in {text}.split(",")'


def _unequal() -> str:
    """Requests that Kubernetes would refuse."""
    limits, requests = (f"c.?resources.?{part}[?k]" for part in ("limits", "requests"))
    equal = f'quantity({requests}.orValue("0")).compareTo(quantity({limits}.orValue("0"))) == 0'
    text = (
        f'variables.paths[i] + ".resources.requests[" + k + "]: " + {requests}.orValue("") + {literal(": " + UNEQUAL)}'
    )
    unequal = f"{requests}.hasValue() && !({limits}.hasValue() && {equal})"
    return f"variables.containers.transformList(i, c, variables.named.filter(k, {unequal}).map(k, {text})).flatten()"


def _of_amounts(source: AdoptionSource) -> list[str]:
    """What is wrong with amounts of one container."""
    bounds = [rule for rule in source.rules if isinstance(rule, Bound)]
    most, remedy = str(MOST), literal(TOO_LARGE)
    if bounds:
        most = f"{literal({rule.resource: rule.most for rule in bounds})}[?variables.named[k]].orValue({most})"
        remedy = f"{literal({rule.resource: rule.remedy for rule in bounds})}[?variables.named[k]].orValue({remedy})"
    for rule in source.rules:
        if isinstance(rule, NoneOf):
            none = f"[variables.named[k]].exists(k, {matches(rule.pattern)})"
            most, remedy = f"({none} ? 0 : {most})", f"({none} ? {literal(rule.remedy)} : {remedy})"
    wrong = f"variables.numbers[i][k] < 0 || variables.numbers[i][k] > {most}"
    if source.environment:
        wrong = f"!(variables.named[k] in {literal(sorted(source.environment))}) && ({wrong})"
    text = 'variables.paths[i] + ".resources.limits[" + variables.named[k] + "]: " + g + ": " + '
    text += f"(variables.numbers[i][k] < 0 ? {literal(NO_NUMBER)} : {remedy})"
    found = [f'texts.transformList(k, g, g != "" && ({wrong}), {text})']
    found += [_not_among(rule) for rule in source.rules if isinstance(rule, Among)]
    if several := [rule for rule in source.rules if isinstance(rule, WholeIfSeveral)]:
        found.append(_too_little(several))
    return [f"variables.given.transformList(i, texts, {' + '.join(found)}).flatten()"]


def _not_among(rule: Among) -> str:
    number = "variables.numbers[i][k]"
    wrong = f"{number} > 0 && {number} % {rule.every} != 0 && !({number} in {list(rule.allowed)})"
    text = f'variables.paths[i] + ".resources.limits[" + variables.named[k] + "]: " + g + {literal(": " + rule.remedy)}'
    return f"texts.transformList(k, g, variables.named[k] == {literal(rule.resource)} && {wrong}, {text})"


def _too_little(rules: Sequence[WholeIfSeveral]) -> str:
    count_of = f"{literal({rule.memory: rule.count for rule in rules})}[?variables.named[k]]"
    least = f"{literal({rule.memory: rule.least for rule in rules})}[?variables.named[k]].orValue(0)"
    remedy = literal({rule.memory: rule.remedy for rule in rules})
    several = f'variables.named.exists(n, name, name == {count_of}.orValue("") && variables.numbers[i][n] > 1)'
    wrong = f"variables.numbers[i][k] > 0 && variables.numbers[i][k] < {least} && {several}"
    text = 'variables.paths[i] + ".resources.limits[" + variables.named[k] + "]: " + g + ": " + '
    return f"texts.transformList(k, g, {wrong}, {text}{remedy}[variables.named[k]])"


def _of_pod(source: AdoptionSource) -> list[str]:
    """What is wrong with the pod as a whole."""
    parts = []
    for rule in source.rules:
        match rule:
            case NotTogether((one, other), remedy):
                text = literal(f"spec.containers: {one}: with {other}: {remedy}")
                both = f"{_asks(source, one)} && {_asks(source, other)}"
                parts.append(f"({both} ? [{text}] : [])")
            case NeedsAmount():
                parts.append(_without_amount(rule))
            case NeedsText(resource, key, value, remedy):
                text = literal(f"spec.containers: {resource}: without {key}: {value}: {remedy}")
                there = f'variables.annotations[?{literal(key)}].orValue("").lowerAscii() == {literal(value)}'
                parts.append(f"({_asks(source, resource)} && !({there}) ? [{text}] : [])")
            case Values(key, allowed, remedy):
                parts.append(of_text(source, key, f"!(text.lowerAscii() in {literal(list(allowed))})", remedy))
            case NoEmptyEntry(key, remedy, noted) if not noted:
                parts.append(of_text(source, key, empty_entry("text"), remedy))
            case _:
                pass
    return parts


def _without_amount(rule: NeedsAmount) -> str:
    """Containers without the amount that the annotation needs; `K` are the places of what each asks for."""
    there = f'variables.annotations[?{literal(rule.key)}].orValue("").lowerAscii() == {literal(rule.text)}'
    asked = f"A.transformList(k, a, a > 0 && variables.named[k] in {literal(list(rule.resources))}, k)"
    wrong = f"K.size() > 0 && !K.exists(k, variables.named[k] == {literal(rule.amount)})"
    text = 'variables.paths[i] + ".resources.limits[" + variables.named[K[0]] + "]: " + variables.given[i][K[0]]'
    told = f"transformList(i, K, {wrong}, {text} + {literal(': ' + rule.remedy)})"
    return f"({there} ? variables.amounts.transformList(i, A, {asked}).{told} : [])"


def _asks(source: AdoptionSource, resource: str) -> str:
    """Whether the pod wants some of the resource."""
    if resource in source.shared:
        return "variables.together > 0"
    return f"variables.named.exists(i, k, k == {literal(resource)} && variables.amounts.exists(A, A[i] > 0))"


def of_text(source: AdoptionSource, key: str, wrong: str, remedy: str) -> str:
    """A text if the annotation or label is there and is `wrong`, an expression of `text`."""
    where = "labels" if key in source.labels else "annotations"
    message = f"{literal(f'metadata.{where}[{key}]: ')} + {shown('text')} + {literal(': ' + remedy)}"
    written = "".join(
        f" && !({literal(mark)} in variables.annotations)" for mark, output in source.outputs.items() if output == key
    )
    return (
        f"({literal(key)} in variables.{where}{written} ? [variables.{where}[{literal(key)}]] : [])"
        f".filter(text, {wrong}).map(text, {message})"
    )


def _of_words(source: AdoptionSource) -> list[str]:
    """Values that no name can have."""
    return [
        of_text(
            source, key, f'!{trimmed("text", key in source.trimmed)}.matches("^[A-Za-z0-9 ,_./:+-]*$")', NOT_NAMEABLE
        )
        for key in (*source.annotations, *source.labels)
    ]


def _of_names(source: AdoptionSource) -> str:
    """The longest annotation, if a name is too long."""
    size = "variables.annotations[k].size()"
    longest = f"K.filter(k, {size} == K.map(n, variables.annotations[n].size()).max()).slice(0, 1)"
    text = f'"metadata.annotations[" + k + "]: " + {shown("variables.annotations[k]")} + {literal(": " + TOO_LONG)}'
    nothing = literal(f"spec.containers: : {TOO_LONG}")
    keys = f"{literal(list(source.annotations))}.filter(k, k in variables.annotations)"
    told = (
        f"[{nothing}]"
        if not source.annotations
        else f"[{keys}].map(K, K.size() == 0 ? [{nothing}] : {longest}.map(k, {text}))[0]"
    )
    return f"(variables.claims.exists(p, p[1].size() > {LONGEST_NAME}) ? {told} : [])"
