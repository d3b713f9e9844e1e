"""The policies of a source, as objects. Pure."""

from collections.abc import Mapping
from typing import Any

from charts.adoption.cel import literal, takes
from charts.adoption.faults import faults
from charts.adoption.notes import notes
from charts.adoption.variables import variables
from driver.adoption.naming import ADOPTED, NAMESPACE_LABEL, PLAIN
from driver.adoption.sources import SOURCES, AdoptionSource
from driver.names import DEFAULT_DRIVER, Names

Object = dict[str, Any]

STEMS = ("adopt", "not-adopted", "adopted")
"""With what the names of the policies of a source begin: the one that changes pods, that refuses, that warns."""
_API = "admissionregistration.k8s.io/v1"
MOST_TOLD = 12
"""Faults in one message: the API server replaces one of more than 5 KiB by a general one."""
_KINDS = (
    ("containers", "object.spec.containers", "i"),
    ("initContainers", "variables.inits", "object.spec.containers.size() + i"),
)
"""Each field with containers, its list, and the place of the container `i` of it in the lists of variables."""
_WITHOUT_NODE = {"name": "has-no-node-name", "expression": 'object.spec.?nodeName.orValue("") == ""'}


def label(source: AdoptionSource) -> str:
    """The label of namespaces whose pods are adopted, with the value "on"."""
    return f"{NAMESPACE_LABEL}{source.name}"


def noted_in(source: AdoptionSource) -> str:
    """The annotation with what of an adopted pod has another effect than it may seem."""
    return f"{DEFAULT_DRIVER}/adopted-{source.name}"


def rivals(source: AdoptionSource) -> list[AdoptionSource]:
    """Other sources that take one of its resources."""
    return [one for one in SOURCES.values() if one is not source and set(one.resources) & set(source.resources)]


def policies(source: AdoptionSource) -> list[Object]:
    """The policies and bindings of a source for namespaces with its label."""
    specs = {"adopt": _adopting(source), "not-adopted": _refusing(source), "adopted": _warning(source)}
    found = []
    for stem in STEMS:
        kind = "Mutating" if stem == "adopt" else "Validating"
        actions = {"not-adopted": ["Deny"], "adopted": ["Warn"]}.get(stem)
        found += _bound(kind, f"{stem}-{source.name}.{DEFAULT_DRIVER}", specs[stem], actions)
    return found


def _bound(kind: str, name: str, spec: Object, actions: list[str] | None) -> list[Object]:
    policy = {"apiVersion": _API, "kind": f"{kind}AdmissionPolicy", "metadata": {"name": name}, "spec": spec}
    binding = {"policyName": name} | ({"validationActions": actions} if actions else {})
    kind = f"{kind}AdmissionPolicyBinding"
    return [policy, {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": binding}]


def _of_new_pods(source: AdoptionSource, condition: Object, known: Mapping[str, str]) -> Object:
    """What all policies have in common; the first expression of the selector is what the component changes."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    namespaces = {"matchExpressions": [{"key": label(source), "operator": "In", "values": ["on"]}]}
    found = {
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": namespaces, "resourceRules": [rule]},
        "matchConditions": [_WITHOUT_NODE, condition],
    }
    variables = [{"name": name, "expression": expression} for name, expression in known.items()]
    return found | ({"variables": variables} if variables else {})


def _names_a_resource(source: AdoptionSource) -> Object:
    its = 'k.contains("/")' if source.name == PLAIN else takes(source)
    parts = "[c.?resources.?limits.orValue({}), c.?resources.?requests.orValue({})]"
    containers = "[object.spec.containers, object.spec.?initContainers.orValue([])]"
    expression = f"{containers}.exists(many, many.exists(c, {parts}.exists(part, part.exists(k, {its}))))"
    return {"name": "names-a-resource", "expression": expression}


def _adopting(source: AdoptionSource) -> Object:
    known = variables(source) | {"faults": faults(source), "notes": notes(source)}
    spec = _of_new_pods(source, _names_a_resource(source), known)
    # A namespace is adopted by one of the sources that take the same resource; the policy that refuses says so.
    others = [{"key": label(other), "operator": "NotIn", "values": ["on"]} for other in rivals(source)]
    spec["matchConstraints"]["namespaceSelector"]["matchExpressions"] += others
    return spec | {
        # A LimitRange puts its defaults back after the change: they are taken out again.
        "reinvocationPolicy": "IfNeeded",
        # The resources go last: those that are limits get their requests again with each change of the pod.
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _with_claims(source)}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": _without_resources()}},
        ],
    }


def _has_claims(source: AdoptionSource) -> str:
    """Whether a policy of the source has given the pod claims."""
    prefix = literal(f"{ADOPTED}{source.name}.")
    named = f'r.?resourceClaimTemplateName.orValue("").startsWith({prefix})'
    return f"object.spec.?resourceClaims.orValue([]).exists(r, {named})"


def _with_claims(source: AdoptionSource) -> str:
    entry = "Object.spec.resourceClaims{name: p[0], resourceClaimTemplateName: p[1]}"
    # With the gate, because a policy whose conditions were not met is not asked again after a change.
    open_to = 'namespaceObject.metadata.?labels[?"lode.dev/gate"].orValue("") == "off"'
    gate = f"Object.spec.schedulingGates{{name: {literal(Names().gate)}}}"
    fields = [
        f"resourceClaims: variables.claims.map(p, {entry})",
        f"schedulingGates: variables.claims.size() == 0 || {open_to} ? [] : [{gate}]",
        *(f"{kind}: {_referring(source, kind, many, place)}" for kind, many, place in _KINDS),
    ]
    if source.schedulers:
        name = "object.spec.schedulerName"
        fields.append(f'schedulerName: {name} in {literal(list(source.schedulers))} ? "default-scheduler" : {name}')
    left = f"variables.named.size() == 0 || variables.faults.size() > 0 || {_has_claims(source)}"
    noted = f'{{{literal(noted_in(source))}: {_some("variables.notes")}.join("; ")}}'
    metadata = f"variables.notes.size() == 0 ? Object.metadata{{}} : Object.metadata{{annotations: {noted}}}"
    return f"{left} ? Object{{}} : Object{{metadata: {metadata}, spec: Object.spec{{{', '.join(fields)}}}}}"


def _some(texts: str) -> str:
    """As many texts as a message can have."""
    return f"({texts}.size() > {MOST_TOLD} ? {texts}.slice(0, {MOST_TOLD}) : {texts})"


def _referring(source: AdoptionSource, kind: str, many: str, place: str) -> str:
    """The containers with their claims, and with the variables that stand for resources."""
    of = f"Object.spec.{kind}"
    named = f"variables.uses[{place}].map(n, {of}.resources.claims{{name: n}})"
    fields = [f"name: c.name, resources: {of}.resources{{claims: {named}}}"]
    changes = f"variables.uses[{place}].size() > 0"
    if source.environment:
        pairs = literal([[resource, variable] for resource, variable in source.environment.items()])
        there = "p[0] in c.?resources.?limits.orValue({})"
        value = "c.resources.limits[p[0]]"
        number = f"quantity({value}).isInteger() ? string(quantity({value}).asInteger()) : {value}"
        variable = f"{of}.env{{name: p[1], value: {number}}}"
        fields.append(f"env: {pairs}.filter(p, {there}).map(p, {variable})")
        changes += f" || {pairs}.exists(p, {there})"
    return f"{many}.transformList(i, c, {changes}, {of}{{{', '.join(fields)}}})"


def _without_resources() -> str:
    paths = [
        f"{many}.transformList(i, c, variables.named.filter(k, k in c.?resources.?{part}.orValue({{}}))"
        f'.map(k, "/spec/{kind}/" + string(i) + "/resources/{part}/" + jsonpatch.escapeKey(k))).flatten()'
        for kind, many, _ in _KINDS
        for part in ("limits", "requests")
    ]
    return f'(variables.faults.size() > 0 ? [] : {" + ".join(paths)}).map(path, JSONPatch{{op: "remove", path: path}})'


def _refusing(source: AdoptionSource) -> Object:
    """Resources that are still there were not taken out."""
    known = variables(source) | {"faults": faults(source), "told": _told(source)}
    said = f"the pod asks for resources of {source.name} and cannot be adopted"
    validation = {
        "expression": "variables.named.size() == 0",
        "message": f"{said}; docs/adoption.md says what can be",
        "messageExpression": f'{literal(said + ": ")} + {_some("variables.told")}.join("; ")',
        "reason": "Forbidden",
    }
    return _of_new_pods(source, _names_a_resource(source), known) | {"validations": [validation]}


def _told(source: AdoptionSource) -> str:
    missing = (
        f"no policy took it over: apply manifests/adopt/{source.name} again, or remove the label {label(source)} of "
        "the namespace"
    )
    told = f"variables.faults.size() > 0 ? variables.faults : [{literal(missing)}]"
    for other in rivals(source):
        both = f"its namespace has the labels {label(source)} and {label(other)}, which take the same resources: "
        both = literal(f"{both}remove one of them")
        has = f'namespaceObject.metadata.?labels[?{literal(label(other))}].orValue("") == "on"'
        told = f"{has} ? [{both}] : {told}"
    return told


def _warning(source: AdoptionSource) -> Object:
    """What the policy that adopts has noted, which alone knows the pod as it was."""
    validation = {
        "expression": "false",
        "message": f"what the annotation {noted_in(source)} says has another effect than it may seem",
        "messageExpression": f"string(object.metadata.annotations[{literal(noted_in(source))}])",
    }
    noted = f"{literal(noted_in(source))} in object.metadata.?annotations.orValue({{}})"
    return _of_new_pods(source, {"name": "was-noted", "expression": noted}, {}) | {"validations": [validation]}
