"""The resource-claim-controller of kube-controller-manager: creates claims from templates and cleans claims up."""

from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Api, Object
from driver.kube.objects import (
    claim_name,
    controller_of,
    generated_claim_prefix,
    is_deleting,
    is_terminal,
    name_key,
)
from driver.names import FINALIZER, POD_CLAIM_NAME
from simulation.kubernetes.component import FakeComponent, WorkKey, delete_by_uid, get_or_none, mutable_copy


def is_done(pod: Object) -> bool:
    """Whether the pod will never use its claims again: it ended, or was deleted before it was scheduled."""
    return is_terminal(pod) or (is_deleting(pod) and not pod["spec"].get("nodeName"))


class ResourceClaimController(FakeComponent):
    """Creates claims from templates for pods, gated or not; deallocates and deletes those whose pods are done.

    Args:
        reserves_for_ended: as before Kubernetes 1.38, a pod that has ended gets its claims reserved again where others
            keep them allocated. The real one does so as often as it has taken the reservation away, this one once.
    """

    def __init__(self, api: Api, clock: Clock, *, reserves_for_ended: bool = False):
        super().__init__(api, clock)
        self._reserves_for_ended = reserves_for_ended
        self._reserved_once: set[str] = set()
        self._created: dict[tuple[str, str], Object] = {}
        self._claims = self.watch(RESOURCE_CLAIMS, self._claim_changed)
        self._templates = self.watch(RESOURCE_CLAIM_TEMPLATES, self._template_changed)
        self._pods = self.watch(PODS, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        namespace, name = name_key(pod)
        self.queue.add(("pod", namespace, name))
        for claim in self._claims.all():
            if self._is_used_by(claim, pod):
                self._claim_changed(claim)

    def _claim_changed(self, claim: Object) -> None:
        namespace, name = name_key(claim)
        self.queue.add(("claim", namespace, name))
        for pod in self._pods.all():
            if pod["spec"].get("nodeName") and namespace == pod["metadata"]["namespace"]:
                self.queue.add(("pod", *name_key(pod)))

    def _template_changed(self, template: Object) -> None:
        for pod in self._pods.all():
            if template["metadata"]["namespace"] == pod["metadata"]["namespace"]:
                self.queue.add(("pod", *name_key(pod)))

    @staticmethod
    def _is_used_by(claim: Object, pod: Object) -> bool:
        owner, uid = controller_of(claim, "Pod"), pod["metadata"]["uid"]
        reserved = (claim.get("status") or {}).get("reservedFor") or []
        return (owner is not None and owner["uid"] == uid) or any(entry["uid"] == uid for entry in reserved)

    def reconcile(self, key: WorkKey) -> None:
        """Sync one pod or one claim."""
        kind, namespace, name = key
        if kind == "pod":
            pod = self._pods.get(namespace, name)
            if pod is None or is_deleting(pod):
                return
            if not is_terminal(pod):
                self._sync_pod(pod)
            elif self._reserves_for_ended and pod["metadata"]["uid"] not in self._reserved_once:
                self._reserve_again(pod)
        else:
            claim = self._claims.get(namespace, name)
            if claim is not None:
                self._sync_claim(claim)

    def _sync_pod(self, pod: Object) -> None:
        entries = pod["spec"].get("resourceClaims") or []
        names = {e["name"]: self._generated_claim(pod, e) for e in entries if e.get("resourceClaimTemplateName")}
        statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items() if name]
        if statuses and statuses != ((pod.get("status") or {}).get("resourceClaimStatuses") or []):
            namespace, name = name_key(pod)
            self.api.patch(
                PODS,
                name,
                {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"resourceClaimStatuses": statuses}},
                namespace=namespace,
                subresource="status",
            )
        if pod["spec"].get("nodeName"):
            self._reserve(pod, entries)

    def _generated_claim(self, pod: Object, entry: Object) -> str:
        """Name of the claim for an entry with a template, created if needed; "" while the template is missing."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        recorded = claim_name(pod, entry)
        if recorded and self._claim_exists(namespace, recorded):
            return recorded
        for claim in self._claims.all():
            owner = controller_of(claim, "Pod")
            annotations = claim["metadata"].get("annotations") or {}
            if owner and owner["uid"] == uid and annotations.get(POD_CLAIM_NAME) == entry["name"]:
                return str(claim["metadata"]["name"])
        created = self._created.get((uid, entry["name"]))
        if created is None or get_or_none(self.api, RESOURCE_CLAIMS, namespace, created["metadata"]["name"]) is None:
            template = self._templates.get(namespace, entry["resourceClaimTemplateName"])
            if template is None:
                return ""
            created = self.api.create(RESOURCE_CLAIMS, _claim_for(pod, entry, template), namespace)
            self._created[uid, entry["name"]] = created
        return str(created["metadata"]["name"])

    def _claim_exists(self, namespace: str, name: str) -> bool:
        cached = self._claims.get(namespace, name)
        return cached is not None or get_or_none(self.api, RESOURCE_CLAIMS, namespace, name) is not None

    def _reserve_again(self, pod: Object) -> None:
        """Reserve claims for a pod that has ended, once the reservations from before were taken away."""
        entries = pod["spec"].get("resourceClaims") or []
        claims = [self._claims.get(pod["metadata"]["namespace"], claim_name(pod, entry)) for entry in entries]
        kept = [claim for claim in claims if claim and (claim.get("status") or {}).get("allocation") is not None]
        if pod["spec"].get("nodeName") and any(not self._is_reserved(claim, pod) for claim in kept):
            self._reserved_once.add(pod["metadata"]["uid"])
            self._reserve(pod, entries)

    @staticmethod
    def _is_reserved(claim: Object, pod: Object) -> bool:
        reserved = claim["status"].get("reservedFor") or []
        return any(entry["uid"] == pod["metadata"]["uid"] for entry in reserved)

    def _reserve(self, pod: Object, entries: list[Object]) -> None:
        """Reserve allocated claims for a pod that was bound without kube-scheduler.

        Not those in deletion: the API server refuses new users of them, however often the real one asks.
        """
        namespace, name = name_key(pod)
        consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        for entry in entries:
            claim = self._claims.get(namespace, claim_name(pod, entry))
            if claim is None or is_deleting(claim):
                continue
            status = claim.get("status") or {}
            reserved = status.get("reservedFor") or []
            if status.get("allocation") is not None and consumer["uid"] not in [r["uid"] for r in reserved]:
                changed = mutable_copy(claim)
                changed["status"]["reservedFor"] = [*reserved, consumer]
                self.api.update(RESOURCE_CLAIMS, changed, "status")

    def _sync_claim(self, claim: Object) -> None:
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        consumers = [entry for entry in reserved if not self._consumer_done(claim, entry)]
        has_finalizer = FINALIZER in (claim["metadata"].get("finalizers") or [])
        if len(consumers) < len(reserved):
            changed = mutable_copy(claim)
            changed["status"]["reservedFor"] = consumers
            if not consumers and has_finalizer:
                changed["status"].pop("allocation", None)
            claim = self.api.update(RESOURCE_CLAIMS, changed, "status")
            if not consumers and has_finalizer:
                claim = self._remove_finalizer(claim)
        elif is_deleting(claim) and has_finalizer and not reserved:
            if status.get("allocation") is not None:
                changed = mutable_copy(claim)
                changed["status"].pop("allocation", None)
                claim = self.api.update(RESOURCE_CLAIMS, changed, "status")
            claim = self._remove_finalizer(claim)
        owner = controller_of(claim, "Pod")
        if owner and not consumers and not is_deleting(claim) and self._owner_done(claim, owner):
            delete_by_uid(self.api, RESOURCE_CLAIMS, claim)

    def _remove_finalizer(self, claim: Object) -> Object:
        changed = mutable_copy(claim)
        changed["metadata"]["finalizers"] = [f for f in changed["metadata"]["finalizers"] if f != FINALIZER]
        return self.api.update(RESOURCE_CLAIMS, changed)

    def _consumer_done(self, claim: Object, consumer: Object) -> bool:
        if consumer["resource"] != "pods" or consumer.get("apiGroup"):
            return False
        namespace = claim["metadata"]["namespace"]
        pod = self._pods.get(namespace, consumer["name"])
        if pod is None or pod["metadata"]["uid"] != consumer["uid"]:
            pod = get_or_none(self.api, PODS, namespace, consumer["name"])
        return pod is None or pod["metadata"]["uid"] != consumer["uid"] or is_done(pod)

    def _owner_done(self, claim: Object, owner: Object) -> bool:
        namespace = claim["metadata"]["namespace"]
        pod = self._pods.get(namespace, owner["name"]) or get_or_none(self.api, PODS, namespace, owner["name"])
        return pod is None or pod["metadata"]["uid"] != owner["uid"] or is_done(pod)


def _claim_for(pod: Object, entry: Object, template: Object) -> Object:
    metadata = (template["spec"].get("metadata")) or {}
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": generated_claim_prefix(pod["metadata"]["name"], entry["name"]),
            "namespace": pod["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod["metadata"]["name"],
                    "uid": pod["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": mutable_copy(template["spec"]["spec"]),
    }
