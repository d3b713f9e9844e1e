"""What of a pod has another effect than it may seem, as a list of texts in CEL, from the rules of a source. Pure."""

from charts.adoption.cel import literal, shown
from charts.adoption.faults import empty_entry, of_text
from driver.adoption.rules import PRIVILEGED, RAISED, IgnoredInInit, NoEmptyEntry, OnlyKnown, ReadHere, ReadOtherwise
from driver.adoption.sources import AdoptionSource
from driver.adoption.turns import WHOLE

_AMOUNT = 'variables.paths[i] + ".resources.limits[" + variables.named[k] + "]: " + g + '


def notes(source: AdoptionSource) -> str:
    """The texts, each with field and value."""
    found = []
    for rule in source.rules:
        match rule:
            case ReadOtherwise(resource, least, most, remedy):
                number = "variables.numbers[i][k]"
                odd = (
                    f'g != "" && variables.named[k] == {literal(resource)} && ({number} < {least} || {number} > {most})'
                )
                found.append(_of_amounts(odd, "variables.amounts[i].exists(a, a > 0)", remedy))
            case IgnoredInInit(resources, remedy):
                ignored = f"variables.numbers[i][k] > 0 && variables.named[k] in {literal(sorted(resources))}"
                init = "i >= variables.apps && variables.amounts[i].exists(a, a > 0)"
                found.append(_of_amounts(ignored, init, remedy))
            case NoEmptyEntry(key, remedy, True):
                found.append(of_text(source, key, empty_entry("text"), remedy))
            case ReadHere(key, remedy):
                found.append(of_text(source, key, "true", remedy))
            case OnlyKnown(prefix, known, remedy):
                unknown = f"k.startsWith({literal(prefix)}) && !(k in {literal(sorted(known))})"
                told = f'"metadata.annotations[" + k + "]: " + {shown("variables.annotations[k]")}'
                told += f" + {literal(': ' + remedy)}"
                found.append(f"variables.annotations.map(k, k).filter(k, {unknown}).map(k, {told})")
            case _:
                pass
    if source.cards:
        found += [
            f"variables.raised.map(i, variables.paths[i] + {literal('.resources: ' + RAISED)})",
            _privileged(source),
        ]
    return " + ".join(found) or "[]"


def _of_amounts(odd: str, of: str, remedy: str) -> str:
    """Texts of amounts that are `odd`, of containers for which `of` holds."""
    texts = f"texts.transformList(k, g, {odd}, {_AMOUNT}{literal(': ' + remedy)})"
    return f"variables.given.transformList(i, texts, {of}, {texts}).flatten()"


def _privileged(source: AdoptionSource) -> str:
    parts = f"variables.sizes.exists(G, G.exists(s, s[4] > {WHOLE}))"
    if source.shared:
        parts += " || variables.together > 0"
    text = literal(f".securityContext.privileged: true: {PRIVILEGED}")
    told = f"c.?securityContext.?privileged.orValue(false), variables.paths[i] + {text}"
    return f"(({parts}) ? variables.containers.transformList(i, c, {told}) : [])"
