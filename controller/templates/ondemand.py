"""Decides which ResourceClaimTemplates on demand are made and removed. Pure.

The name of such a template says what its claims ask for (``driver.adoption``). It is made when a pod that waits at our
gate names it, and removed when no pod names it any more. A template of such a name that somebody else has made is
used, and left alone.
"""

from dataclasses import dataclass

from controller.reconcile.podclaims import template_exists
from controller.refusal import Refusal
from controller.state import State
from driver.adoption import template_spec
from driver.errors import InvalidInput
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, Object


@dataclass(frozen=True, slots=True)
class MakeTemplate:
    """Create the template."""

    template: Object


@dataclass(frozen=True, slots=True)
class RemoveTemplate:
    """Remove the template that nobody uses, if it is still this one."""

    uid: str
    version: str


TemplateDecision = MakeTemplate | RemoveTemplate | Refusal[str] | None
"""A decision about one template: refused if pods wait for it, but it may not be made now; None if there is nothing to
do."""


def decide_template(state: State, key: str, others: int, most: int) -> TemplateDecision:
    """Decide about the template on demand ``key`` (namespace/name).

    Args:
        others: how many others the namespace has, with those that are being made.
        most: how many a namespace may have.
    """
    namespace, _, name = key.partition("/")
    if template_exists(state, key):
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
        why = (
            f"the namespace has {others} templates on demand, and may have {most} (the controller's setting "
            "templates.perNamespace); delete pods that name others, or have the setting raised"
        )
        return Refusal(key, why)
    return MakeTemplate(
        {
            "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
            "kind": RESOURCE_CLAIM_TEMPLATES.kind,
            "metadata": {"name": name, "namespace": namespace, "labels": {state.names.on_demand: "true"}},
            "spec": spec,
        }
    )
