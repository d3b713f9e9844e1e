"""Invariants of templates on demand: who waits for one has it or knows why not, and none is left that nobody uses."""

from collections.abc import Iterator

from controller.state.templates import is_made_on_demand
from driver.adoption import is_on_demand, template_spec
from driver.errors import InvalidInput
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, Object
from driver.kube.objects import claim_name, is_deleting, is_terminal, name_key
from driver.names import Names
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster

MARGIN_SECONDS = 30.0
"""After a template is due to go, for pauses after writes without an answer and for a change of the leader."""


def template_violations(cluster: SimulatedCluster) -> Iterator[str]:
    """Each pod that waits at our gate has its templates, unless their names are wrong or there are too many."""
    names, most = cluster.settings.names, cluster.settings.controller.templates.per_namespace
    templates = {"/".join(name_key(one)): one for one in cluster.api.list(RESOURCE_CLAIM_TEMPLATES).items}
    for namespace in {key.partition("/")[0] for key in templates}:
        made = [k for k, one in templates.items() if k.startswith(f"{namespace}/") and is_made_on_demand(one, names)]
        if len(made) > most:
            yield f"namespace {namespace} has {len(made)} templates on demand, and may have {most}"
        full = len(made) >= most
        for pod, name in _named(cluster, namespace):
            if f"{namespace}/{name}" in templates:
                continue
            reason = _reason(pod, names)
            if not _is_valid(name, names):
                wanted = "TemplateInvalid"
            elif full:
                wanted = "TemplateRefused"
            else:
                yield f"pod {'/'.join(name_key(pod))} waits for the template {name}, which does not exist"
                continue
            if reason != wanted:
                yield f"pod {'/'.join(name_key(pod))} says {reason} about the template {name[:60]}, not {wanted}"


def check_unused_templates(cluster: SimulatedCluster) -> None:
    """Let the time pass after which templates go that nobody uses, in a settled cluster: then all are used.

    Raises:
        Violation: names those that are left.
    """
    if not _made(cluster):
        return
    cluster.idle(cluster.settings.controller.templates.unused_seconds + MARGIN_SECONDS)
    used = {f"{namespace}/{name}" for namespace in _namespaces(cluster) for _, name in _named(cluster, namespace, "")}
    if left := [key for key in _made(cluster) if key not in used]:
        raise Violation(f"templates that nobody uses are left: {left}")


def _made(cluster: SimulatedCluster) -> list[str]:
    """The templates that a controller made."""
    templates, names = cluster.api.list(RESOURCE_CLAIM_TEMPLATES).items, cluster.settings.names
    return ["/".join(name_key(one)) for one in templates if is_made_on_demand(one, names)]


def _namespaces(cluster: SimulatedCluster) -> set[str]:
    return {pod["metadata"]["namespace"] for pod in cluster.invariants.pods()}


def _named(cluster: SimulatedCluster, namespace: str, gate: str | None = None) -> Iterator[tuple[Object, str]]:
    """The pods of a namespace that wait at a gate (ours; "": all pods), with the templates that they name.

    Of those that wait, without the templates of which they have the claim already: they need them no more.
    """
    gate = cluster.settings.names.gate if gate is None else gate
    for pod in cluster.invariants.pods():
        gates = [one["name"] for one in pod["spec"].get("schedulingGates") or []]
        if pod["metadata"]["namespace"] != namespace or is_terminal(pod) or (gate and gate not in gates):
            continue
        if gate and is_deleting(pod):
            continue
        for entry in pod["spec"].get("resourceClaims") or []:
            name = entry.get("resourceClaimTemplateName") or ""
            if is_on_demand(name) and not (gate and claim_name(pod, entry)):
                yield pod, name


def _is_valid(name: str, names: Names) -> bool:
    try:
        template_spec(name, names)
    except InvalidInput:
        return False
    return True


def _reason(pod: Object, names: Names) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one.get("reason") or "" for one in conditions if one["type"] == f"{names.driver}/Allocated"), "")
