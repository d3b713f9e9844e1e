"""Finds the consumer of a claim that a pod uses: the pod itself, or its PodGroup. Pure."""

from typing import Final

from controller.gangs import VERSIONS, Group, GroupObjects, Source
from controller.state.podview import PodView
from driver.model import Claim, Consumer

POD_GROUPS: Final = ("scheduling.k8s.io", "podgroups")
"""API group and resource of a PodGroup in ``status.reservedFor``."""


def consumer_of(pod: PodView, claim: str, groups: GroupObjects) -> Consumer:
    """Return the consumer that the claim (``namespace/name``) is reserved for when the pod uses it.

    It is the pod's PodGroup of ``scheduling.k8s.io`` if an entry of the group's ``spec.resourceClaims`` has the same
    name and the same claim or template as the pod's entry; else the pod (scheduling/v1beta1 PodGroupSpec).
    """
    group = _group_of(pod, groups)
    if group is not None and any(
        f"{pod.namespace}/{one.claim}" == claim and (one.entry, one.template or one.claim) in group.claims
        for one in pod.references
    ):
        api_group, resource = POD_GROUPS
        return Consumer(resource, group.key.partition("/")[2], group.uid, api_group)
    return Consumer("pods", pod.name, pod.uid)


def is_made_for(claim: Claim, consumer: Consumer) -> bool:
    """Return whether the claim was created from a template for this pod or PodGroup."""
    if consumer.resource == "pods":
        return claim.owner_pod_uid == consumer.uid
    return claim.owner_pod_group_uid == consumer.uid


def _group_of(pod: PodView, groups: GroupObjects) -> Group | None:
    named = pod.gang.groups if pod.gang is not None else ()
    name = next((group.name for group in named if group.source is Source.POD_GROUP), "")
    return groups.group(VERSIONS[Source.POD_GROUP], f"{pod.namespace}/{name}") if name else None
