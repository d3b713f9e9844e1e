"""The resource-claim-controller of kube-controller-manager: claims from templates, and their clean-up."""

from driver.clock import Clock
from driver.kube.api import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Api,
    Object,
)
from driver.names import FINALIZER, POD_CLAIM_NAME
from simulation.standins.informed import (
    Key,
    StandIn,
    changed_copy,
    delete_exactly,
    fresh,
    is_deleting,
    is_terminal,
    name_key,
    owner_of,
)

BASE_LENGTH = 57
"""Room for ``<pod>-<entry>-`` before the API's five random characters."""


def is_done(pod: Object) -> bool:
    """Whether the pod will never use its claims again: ended, or deleted before it was scheduled."""
    return is_terminal(pod) or (is_deleting(pod) and not pod["spec"].get("nodeName"))


def base_name(pod: str, entry: str) -> str:
    """``generateName`` of a claim made for an entry of ``pod.spec.resourceClaims``; both parts are cut alike."""
    room = BASE_LENGTH - 2
    if len(pod) + len(entry) > room:
        pod_room = max(1, room * len(pod) // (len(pod) + len(entry)))
        pod, entry = pod[:pod_room], entry[: room - pod_room]
    return f"{pod}-{entry}-"


def claim_name(pod: Object, entry: Object) -> str:
    """Name of the claim behind an entry of ``pod.spec.resourceClaims``; "" while it is not made."""
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    return next((s.get("resourceClaimName") or "" for s in statuses if s["name"] == entry["name"]), "")


class ResourceClaimController(StandIn):
    """Makes claims from templates for pods, gated or not; frees and deletes those whose pods are done."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._made: dict[tuple[str, str], Object] = {}
        self._claims = self.watch(RESOURCE_CLAIMS, self._claim_changed)
        self._templates = self.watch(RESOURCE_CLAIM_TEMPLATES, self._template_changed)
        self._pods = self.watch(PODS, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        namespace, name = name_key(pod)
        self.queue.add(("pod", namespace, name))
        for claim in self._claims.all():
            if self._concerns(claim, pod):
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
    def _concerns(claim: Object, pod: Object) -> bool:
        owner, uid = owner_of(claim, "Pod"), pod["metadata"]["uid"]
        reserved = (claim.get("status") or {}).get("reservedFor") or []
        return (owner is not None and owner["uid"] == uid) or any(entry["uid"] == uid for entry in reserved)

    def reconcile(self, key: Key) -> None:
        """Bring one pod's or one claim's affairs in order."""
        kind, namespace, name = key
        if kind == "pod":
            pod = self._pods.get(namespace, name)
            if pod is not None and not is_deleting(pod) and not is_terminal(pod):
                self._sync_pod(pod)
        else:
            claim = self._claims.get(namespace, name)
            if claim is not None:
                self._sync_claim(claim)

    def _sync_pod(self, pod: Object) -> None:
        entries = pod["spec"].get("resourceClaims") or []
        made = {e["name"]: self._generated(pod, e) for e in entries if e.get("resourceClaimTemplateName")}
        statuses = [{"name": entry, "resourceClaimName": name} for entry, name in made.items() if name]
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

    def _generated(self, pod: Object, entry: Object) -> str:
        """Name of the claim for an entry with a template, made if there is none; "" while the template is missing."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        known = claim_name(pod, entry)
        if known and (self._claims.get(namespace, known) or fresh(self.api, RESOURCE_CLAIMS, namespace, known)):
            return known
        for claim in self._claims.all():
            owner = owner_of(claim, "Pod")
            annotations = claim["metadata"].get("annotations") or {}
            if owner and owner["uid"] == uid and annotations.get(POD_CLAIM_NAME) == entry["name"]:
                return str(claim["metadata"]["name"])
        made = self._made.get((uid, entry["name"]))
        if made is None or fresh(self.api, RESOURCE_CLAIMS, namespace, made["metadata"]["name"]) is None:
            template = self._templates.get(namespace, entry["resourceClaimTemplateName"])
            if template is None:
                return ""
            made = self.api.create(RESOURCE_CLAIMS, _claim_for(pod, entry, template), namespace)
            self._made[uid, entry["name"]] = made
        return str(made["metadata"]["name"])

    def _reserve(self, pod: Object, entries: list[Object]) -> None:
        """Reserve allocated claims for a pod that was bound without kube-scheduler."""
        namespace, name = name_key(pod)
        me = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        for entry in entries:
            claim = self._claims.get(namespace, claim_name(pod, entry))
            status = (claim or {}).get("status") or {}
            reserved = status.get("reservedFor") or []
            if claim and status.get("allocation") is not None and me["uid"] not in [r["uid"] for r in reserved]:
                wanted = changed_copy(claim)
                wanted["status"]["reservedFor"] = [*reserved, me]
                self.api.update(RESOURCE_CLAIMS, wanted, "status")

    def _sync_claim(self, claim: Object) -> None:
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        valid = [entry for entry in reserved if not self._gone(claim, entry)]
        guarded = FINALIZER in (claim["metadata"].get("finalizers") or [])
        if len(valid) < len(reserved):
            wanted = changed_copy(claim)
            wanted["status"]["reservedFor"] = valid
            if not valid and guarded:
                wanted["status"].pop("allocation", None)
            claim = self.api.update(RESOURCE_CLAIMS, wanted, "status")
            if not valid and guarded:
                claim = self._release(claim)
        elif is_deleting(claim) and guarded and not reserved:
            if status.get("allocation") is not None:
                wanted = changed_copy(claim)
                wanted["status"].pop("allocation", None)
                claim = self.api.update(RESOURCE_CLAIMS, wanted, "status")
            claim = self._release(claim)
        owner = owner_of(claim, "Pod")
        if owner and not valid and not is_deleting(claim) and self._owner_done(claim, owner):
            delete_exactly(self.api, RESOURCE_CLAIMS, claim)

    def _release(self, claim: Object) -> Object:
        wanted = changed_copy(claim)
        wanted["metadata"]["finalizers"] = [f for f in wanted["metadata"]["finalizers"] if f != FINALIZER]
        return self.api.update(RESOURCE_CLAIMS, wanted)

    def _gone(self, claim: Object, consumer: Object) -> bool:
        if consumer["resource"] != "pods" or consumer.get("apiGroup"):
            return False
        namespace = claim["metadata"]["namespace"]
        pod = self._pods.get(namespace, consumer["name"])
        if pod is None or pod["metadata"]["uid"] != consumer["uid"]:
            pod = fresh(self.api, PODS, namespace, consumer["name"])
        return pod is None or pod["metadata"]["uid"] != consumer["uid"] or is_done(pod)

    def _owner_done(self, claim: Object, owner: Object) -> bool:
        namespace = claim["metadata"]["namespace"]
        pod = self._pods.get(namespace, owner["name"]) or fresh(self.api, PODS, namespace, owner["name"])
        return pod is None or pod["metadata"]["uid"] != owner["uid"] or is_done(pod)


def _claim_for(pod: Object, entry: Object, template: Object) -> Object:
    metadata = (template["spec"].get("metadata")) or {}
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": base_name(pod["metadata"]["name"], entry["name"]),
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
        "spec": changed_copy(template["spec"]["spec"]),
    }
