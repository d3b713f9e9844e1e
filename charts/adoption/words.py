"""The policy that refuses words that no name of a template on demand has, and those that say nothing. Pure.

It says what ``driver.adoption.spelling.misspelt`` says.
"""

from typing import Any

from charts.adoption.cel import literal
from driver.adoption.naming import WORDS
from driver.adoption.spelling import (
    COUNT,
    DOTTED,
    EXAMPLES,
    FAMILIES,
    FAMILY,
    FIXED_WORDS,
    GPU_TYPES,
    HYPHENS,
    KINDS,
    MATCHING,
    MOST_COMPARED,
    NEAR_MISSES,
    NPUS,
    NUMBERED_WORDS,
    OTHER_WORDS,
    POLICIES,
    PROFILE_WORDS,
    PROFILES,
    UNKNOWN,
    UNKNOWN_TYPE,
)
from driver.names import DEFAULT_DRIVER

NAME = f"template-words.{DEFAULT_DRIVER}"
COMMENT = """\
# Pods may name claim templates in words, such as lode.2-h100-80gi (docs/requests.md). The controller says on a pod what
# is wrong with its names; for a word that is wrong or says nothing, whoever makes the pod hears it at once.
"""
_MOST_TOLD = 8
"""Faults in one message."""
_SHIFT = 1000
"""More than there are words."""
_PARTS = f"w.matches({literal(f'^({PROFILE_WORDS})$')})"


def policy() -> list[dict[str, Any]]:
    """The policy and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    api = "admissionregistration.k8s.io/v1"
    named = f'r.?resourceClaimTemplateName.orValue("").startsWith({literal(WORDS)})'
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "names-a-template", "expression": f"object.spec.?resourceClaims.orValue([]).exists(r, {named})"}
        ],
        "variables": [{"name": name, "expression": expression} for name, expression in _variables(named).items()],
        "validations": [
            {
                "expression": "variables.wrong.size() == 0",
                "message": "the name of a claim template has a word that is not known; docs/requests.md has them all",
                "messageExpression": 'variables.wrong.join("; ")',
                "reason": "Forbidden",
            }
        ],
    }
    metadata = {"name": NAME}
    return [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        },
    ]


def _variables(named: str) -> dict[str, str]:
    """`names` has triples: the path with the name, its words, and these with hyphens for the dots of a profile."""
    path = '"spec.resourceClaims[" + string(i) + "].resourceClaimTemplateName: " + r.resourceClaimTemplateName + ": "'
    words = f'r.resourceClaimTemplateName.substring({len(WORDS)}).split("-")'
    hyphened = f'w.matches({literal(_whole(DOTTED))}) ? w.replace(".", "-") : w'
    triple = f'[{words}].map(W, [[{path}], W, W.map(w, {hyphened}).join("-").split("-")])[0]'
    misplaced, unknown = _misplaced(), f"!({_known()})"
    hyphens = f'[{literal(HYPHENS + ": write " + WORDS)} + n[2].join("-")]'
    told = (
        f"n[1].exists(w, {unknown}) ? "
        f"(n[2].exists(w, {unknown}) ? n[1].filter(w, {unknown}).map(w, {_unknown()}) : "
        f"[{misplaced.format(at=2)}].map(t, t.size() == 0 ? {hyphens} : t)[0]) : {misplaced.format(at=1)}"
    )
    return {
        "candidates": literal(list(OTHER_WORDS)),
        "types": literal(FAMILIES),
        "names": f"object.spec.resourceClaims.transformList(i, r, {named}, {triple})",
        "found": f"variables.names.map(n, ({told}).map(t, n[0][0] + t)).flatten()",
        "wrong": (
            f"(variables.found.size() > {_MOST_TOLD} ? variables.found.slice(0, {_MOST_TOLD}) : variables.found)"
            ".map(t, string(t))"
        ),
    }


def _known() -> str:
    """Whether the word `w` is known."""
    numbered = literal(_whole("|".join(NUMBERED_WORDS.values())))
    return f"w in {literal(list(FIXED_WORDS))} || w.matches({numbered})"


def _unknown() -> str:
    """What is said of the word `w`, which is not known."""
    types = f"variables.types[?w.find({literal(f'^({FAMILY})')})]"
    named = f'{types}.hasValue() ? "the types of this name are " + {types}.value() : {literal(UNKNOWN_TYPE)}'
    advice = f'w.matches("[0-9]") ? ({named}) : {_nearest()}'
    for pattern, remedy in reversed(list(NEAR_MISSES.items())):
        advice = f"w.matches({literal(_whole(pattern))}) ? {literal(remedy)} : {advice}"
    short = "(word.size() > 32 ? word.substring(0, 32) : word)"
    return f'[w].map(word, {short}).map(w, "\'" + w + "\' is no word of such names; " + ({advice}))[0]'


def _nearest() -> str:
    """The candidate with the greatest likeness: the last three digits of the greatest sum say which."""
    likeness = (
        "!known.startsWith(w.substring(0, 1)) ? 0 : "
        "2 * lists.range(w.size()).filter(i, i + 1 < w.size() && known.contains(w.substring(i, i + 2))).size()"
        " + lists.range(w.size()).filter(i, known.contains(w.substring(i, i + 1))).size()"
        " + 1 - (known.size() > w.size() ? known.size() - w.size() : w.size() - known.size())"
    )
    sums = f"variables.candidates.transformList(k, known, ({likeness}) * {_SHIFT} + {_SHIFT - 1} - k).max()"
    # A sum below 0 is of no word that is like it.
    told = (
        f'm >= w.size() * {_SHIFT} ? "the nearest is \'" + variables.candidates[{_SHIFT - 1} - m % {_SHIFT}] + "\'"'
        f" : {literal(UNKNOWN)}"
    )
    word = f"(w.size() > {MOST_COMPARED} ? w.substring(0, {MOST_COMPARED}) : w)"
    return f"[{word}].map(w, [{sums}].map(m, {told})[0])[0]"


def _misplaced() -> str:
    """What is said of the words of the name `n`, all of which are known; ``{at}`` is their place in it."""
    words = "n[{at}]"
    parts = []
    for kind, pattern in PROFILES.items():
        rest = f"{words}.filter(w, !(w in P) && !(w in {literal(list(PROFILES))}))"
        kinds = literal([*KINDS, *GPU_TYPES, *NPUS])
        without = f'{rest}.exists(w, w in {kinds}) ? ", or {WORDS}" + {rest}.join("-") + " without it" : ""'
        needs = f'P.join("-") + {literal(f" needs the word {kind}: write ")} + {_whole_name(kind, "P")} + ({without})'
        example = _whole_name(kind, literal(EXAMPLES[kind].split("-")))
        which = f"{literal(f'{kind}: say which one, as in ')} + {example}"
        kind_is_there = f"{literal(kind)} in {words}"
        wrong = f"P.size() > 0 ? ({kind_is_there} ? [] : [{needs}]) : ({kind_is_there} ? [{which}] : [])"
        parts.append(f"[{_profile(pattern)}].map(P, {wrong})[0]")
    placed = " + ".join(_profile(pattern) for pattern in PROFILES.values())
    said = literal(" is no whole profile: write one such as 1g-10gb or vir02-1c, or remove it")
    parts.append(f"[{placed}].map(P, {words}.filter(w, {_PARTS} && !(w in P)).map(w, w + {said}))[0]")
    twice = literal(" is there twice: write it once")
    parts.append(f"{words}.transformList(k, w, {words}.indexOf(w) < k, w + {twice})")
    # The braces of regular expressions stay when the place is filled in.
    return " + ".join(parts).replace("{", "{{").replace("}", "}}").replace("{{at}}", "{at}")


def _profile(pattern: str) -> str:
    """The words of the first profile."""
    return f'n[{{at}}].join("-").find({literal(f"(^|-)({pattern})(-|$)")}).split("-").filter(w, w != "")'


def _whole_name(kind: str, profile: str) -> str:
    types = GPU_TYPES if kind == "mig" else NPUS
    beside = literal([*types, *POLICIES, *MATCHING])
    kept = f"n[{{at}}].filter(w, !(w in {profile}) && (w in {beside} || w.matches({literal(_whole(COUNT))})))"
    return f'{literal(WORDS)} + ([{literal(kind)}] + {kept} + {profile}).join("-")'


def _whole(pattern: str) -> str:
    return f"^({pattern})$"
