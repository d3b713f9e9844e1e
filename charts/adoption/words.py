"""The policy that refuses words that no name of a template on demand has, with the nearest one. Pure."""

from typing import Any

from charts.adoption.cel import literal
from driver.adoption.naming import WORDS
from driver.adoption.words import CANDIDATES, FIXED_WORDS, MOST_COMPARED, NEAR_MISSES, NUMBERED_WORDS
from driver.names import DEFAULT_DRIVER

NAME = f"template-words.{DEFAULT_DRIVER}"
COMMENT = """\
# Pods may name claim templates in words, such as lode.2-h100-80gi (docs/requests.md). The controller says on a pod what
# is wrong with its names; for a wrong word, whoever makes the pod hears it at once, with the nearest right one.
"""
_MOST_TOLD = 8
"""Wrong words in one message."""
_SHIFT = 1000
"""More than there are words, and than a likeness is below 0."""


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
                "messageExpression": f'variables.wrong.map(p, {_told()}).join("; ")',
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
    """`wrong` has pairs: the path of the entry with the name of the template, and the word."""
    known = literal(list(FIXED_WORDS))
    pattern = literal(_whole("|".join(NUMBERED_WORDS.values())))
    words = f'r.resourceClaimTemplateName.substring({len(WORDS)}).split("-")'
    wrong = f"{words}.filter(w, !(w in {known}) && !w.matches({pattern}))"
    path = '"spec.resourceClaims[" + string(i) + "].resourceClaimTemplateName: " + r.resourceClaimTemplateName'
    pairs = f"object.spec.resourceClaims.transformList(i, r, {named}, {wrong}.map(w, [{path}, w])).flatten(1)"
    return {
        "candidates": literal(list(CANDIDATES)),
        "found": pairs,
        "wrong": f"variables.found.size() > {_MOST_TOLD} ? variables.found.slice(0, {_MOST_TOLD}) : variables.found",
    }


def _told() -> str:
    advice = '"the nearest is \'" + variables.candidates[' + _nearest() + '] + "\'"'
    for pattern, remedy in reversed(list(NEAR_MISSES.items())):
        advice = f"p[1].matches({literal(_whole(pattern))}) ? {literal(remedy)} : {advice}"
    return f'p[0] + ": \'" + p[1] + "\' is no word of such names; " + ({advice})'


def _nearest() -> str:
    """The place of the candidate with the greatest likeness: the last three digits of the greatest sum say which."""
    likeness = (
        "2 * lists.range(w.size()).filter(i, i + 1 < w.size() && known.contains(w.substring(i, i + 2))).size()"
        " + lists.range(w.size()).filter(i, known.contains(w.substring(i, i + 1))).size()"
        " + (known.startsWith(w.substring(0, 1)) ? 1 : 0)"
        " - (known.size() > w.size() ? known.size() - w.size() : w.size() - known.size())"
    )
    sums = f"variables.candidates.transformList(k, known, ({_SHIFT} + {likeness}) * {_SHIFT} + {_SHIFT - 1} - k).max()"
    word = f"(p[1].size() > {MOST_COMPARED} ? p[1].substring(0, {MOST_COMPARED}) : p[1])"
    return f"{_SHIFT - 1} - [{word}].map(w, {sums})[0] % {_SHIFT}"


def _whole(pattern: str) -> str:
    return f"^({pattern})$"
