"""Decides which ResourceClaimTemplates on demand are made and removed, and why a pod has to wait for one. Pure.

The name of such a template says what its claims ask for (``driver.adoption``). It is made when a pod that waits at our
gate names it, and removed when no pod names it any more. A template of such a name that somebody else has made is
used, and left alone.
"""

from dataclasses import dataclass
from functools import lru_cache

from controller.reconcile.decisions import Reason, Wait
from controller.state import ClaimRecord, State, template_from
from driver.adoption import is_on_demand, template_spec
from driver.errors import InvalidInput
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, Object
from driver.names import Names


@dataclass(frozen=True, slots=True)
class MakeTemplate:
    """Create the template."""

    template: Object


@dataclass(frozen=True, slots=True)
class RefuseTemplate:
    """Pods wait for the template, but it may not be made now."""

    why: str


@dataclass(frozen=True, slots=True)
class RemoveTemplate:
    """Remove the template that nobody uses, if it is still this one."""

    uid: str
    version: str


TemplateDecision = MakeTemplate | RefuseTemplate | RemoveTemplate | None
"""A decision about one template; None if there is nothing to do."""


def decide_template(state: State, key: str, others: int, most: int) -> TemplateDecision:
    """Decide about the template on demand ``key`` (namespace/name).

    Args:
        others: how many others the namespace has, with those that are being made.
        most: how many a namespace may have.
    """
    namespace, _, name = key.partition("/")
    if _exists(state, key):
        if state.on_demand.is_used(key) or not state.on_demand.is_made(key) or not state.templates.readable:
            return None
        resource = RESOURCE_CLAIM_TEMPLATES
        return RemoveTemplate(state.uid_of(resource, key), state.version_of(resource, key))
    if not state.on_demand.awaiting(key):
        return None
    try:
        spec = template_spec(name, state.names)
    except InvalidInput:
        # Each pod that names it is told: ``wait_for_template``.
        return None
    if others >= most:
        return RefuseTemplate(
            f"the namespace has {others} templates on demand, and may have {most} (the controller's setting "
            "templates.perNamespace); delete pods that name others, or have the setting raised"
        )
    return MakeTemplate(
        {
            "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
            "kind": RESOURCE_CLAIM_TEMPLATES.kind,
            "metadata": {"name": name, "namespace": namespace, "labels": {state.names.on_demand: "true"}},
            "spec": spec,
        }
    )


def claim_of_template(state: State, key: str) -> ClaimRecord | None:
    """Return the claim that is made from the template ``key`` (namespace/name), also if that is yet to be made itself.

    None if the template does not exist, and is not made on demand.
    """
    name = key.partition("/")[2]
    if key in state.templates or not is_on_demand(name) or _exists(state, key):
        return state.templates.get(key)
    return _meant_by(key, state.names)


@lru_cache(maxsize=1024)
def _meant_by(key: str, names: Names) -> ClaimRecord | None:
    namespace, _, name = key.partition("/")
    try:
        return template_from({"metadata": {"namespace": namespace, "name": name}, "spec": template_spec(name, names)})
    except InvalidInput:
        return None


def wait_for_template(state: State, namespace: str, name: str) -> Wait | None:
    """Return why a pod has to wait that names a template on demand; None if the template exists or is being made."""
    key = f"{namespace}/{name}"
    if not is_on_demand(name) or _exists(state, key):
        return None
    try:
        template_spec(name, state.names)
    except InvalidInput as error:
        return Wait(Reason.TEMPLATE_INVALID, f"{error}; make the pod anew with another name")
    if why := state.on_demand.refused.get(key):
        return Wait(Reason.TEMPLATE_REFUSED, f"ResourceClaimTemplate {key} was not made: {why}")
    return None


def _exists(state: State, key: str) -> bool:
    return bool(state.uid_of(RESOURCE_CLAIM_TEMPLATES, key))
