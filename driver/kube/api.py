"""The port to the Kubernetes API: JSON objects in and out, and errors by what the caller must do next. Pure.

Two implementations pass the same contract tests: ``driver.kube.client`` (a real kube-apiserver) and
``memoryapi`` (in memory).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from driver.errors import LodeError

Object = dict[str, Any]
PatchType = Literal["merge", "strategic", "json"]


class Resource(NamedTuple):
    """A kind of object and where the API serves it. A tuple, because it is the key of nearly every lookup."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``, as in an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection or of one object."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/" + "/".join([*parts, self.plural, *(part for part in (name, subresource) if part)])


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
DEVICE_TAINT_RULES = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
MUTATING_POLICIES, MUTATING_BINDINGS, VALIDATING_POLICIES, VALIDATING_BINDINGS = (
    Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    )
)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
POD_GROUPS = tuple(
    Resource("scheduling.k8s.io", version, "podgroups", "PodGroup", namespaced=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""In every version that a supported Kubernetes can serve: the first two in 1.37, the last in 1.36."""
COMPOSITE_POD_GROUPS = tuple(
    Resource("scheduling.k8s.io", version, "compositepodgroups", "CompositePodGroup", namespaced=True)
    for version in ("v1beta1", "v1alpha3")
)
"""The same: the first in 1.38, the second in 1.37, both behind the feature gate CompositePodGroup."""
GROVE_POD_GANGS = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", namespaced=True)
VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", namespaced=True)
KUEUE_WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", namespaced=True)
KUEUE_ADMISSION_CHECKS = Resource("kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", namespaced=False)
COSCHEDULING_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", namespaced=True)


class Undecoded(Object):
    """An object of a list or watch that cannot be decoded. Only its identity is known.

    Attributes:
        problem: the reason why it cannot be decoded.
    """

    def __init__(self, metadata: Object, problem: str):
        super().__init__(metadata=metadata)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, all read at one resource version; ``continue_token`` is "" on the last page.

    An item that cannot be decoded is ``Undecoded``.
    """

    items: Sequence[Object]
    resource_version: str
    continue_token: str = ""


class WatchEvent(NamedTuple):
    """One line of a watch. A BOOKMARK carries only ``metadata.resourceVersion``.

    An object that cannot be decoded is ``Undecoded``.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object


class ApiError(LodeError):
    """The API returned an error. ``status`` is the HTTP code, 0 if there was no response.

    ``retry_after`` is the number of seconds after which the server allows a retry, 0 if it does not say.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float = 0.0):
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(message)


class NotFound(ApiError):
    """404: the object, or the kind, does not exist."""


class AlreadyExists(ApiError):
    """409 AlreadyExists: an object of that name exists."""


class Conflict(ApiError):
    """409 Conflict: the object changed since it was read. Decide again from fresh state."""


class Gone(ApiError):
    """410: the resource version (or continue token) is too old, or a watch cannot go on from it. List again."""


class Invalid(ApiError):
    """400, 413 or 422, or 500 if the object is too large for the store: the server rejects the object.

    A defect of this program or bad input; never retried unchanged.
    """


class Forbidden(ApiError):
    """401 or 403: not allowed, by RBAC or by an admission policy. An operator must act."""


class Unavailable(ApiError):
    """No valid response (connection lost, timeout, 429, 5xx). **The write may have happened.** Read before a retry."""


class OverBudget(ApiError):
    """429 for an eviction: a PodDisruptionBudget does not allow it now, or several apply. The pod was not evicted."""


def nothing() -> None:
    """Does nothing; the default of ``meanwhile``."""


Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "evict"]
READS: Final = frozenset(("get", "list", "watch"))
_WRITES: Final = frozenset(("create", "update", "patch", "delete", "evict"))
_STORED: Final = ("name", "uid", "resourceVersion")
"""What ``metadata`` of every stored object has."""


class ApiCall(NamedTuple):
    """One call of the API as a value: the verb and its arguments. The methods of ``Api`` document them."""

    verb: Verb
    resource: Resource
    namespace: str = ""
    """The namespace; for a create or update without one, that of the object."""
    name: str = ""
    """"" for list and watch. For create, the name or generateName of the object."""
    subresource: str = ""
    body: Any = None
    """The object of a create or update, the patch of a patch. It belongs to the caller: read, never change."""
    patch_type: PatchType = "merge"
    uid: str = ""
    """The precondition of a delete or an eviction."""
    resource_version: str = ""
    """The precondition of a delete or an eviction, or the version a watch starts from."""
    grace_period_seconds: int | None = None
    dry_run: bool = False
    """True if the server says of an eviction what would become of it, and does nothing."""
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int = 0
    meanwhile: Callable[[], object] = nothing

    @property
    def is_write(self) -> bool:
        """True if the call changes something."""
        return self.verb in _WRITES and not self.dry_run

    def __str__(self) -> str:
        return f"{self.verb} {self.resource.plural}{' (dry run)' if self.dry_run else ''}"


class Api(ABC):
    """The calls that the programs make. Every call may raise any ApiError.

    Implementations have only ``call``; the methods of the verbs build its argument. An answer that should be an object
    is one: it has the name, uid and resource version of a stored object. What else a server says is one of the errors.
    """

    @abstractmethod
    def call(self, call: ApiCall) -> Any:
        """The answer to the call, as the method of its verb documents it."""

    def get(
        self, resource: Resource, name: str, namespace: str = "", *, meanwhile: Callable[[], object] = nothing
    ) -> Object:
        """The object, complete, with ``apiVersion`` and ``kind``.

        Args:
            meanwhile: called while the server works; what it raises is raised in the place of the answer.
        """
        return self._object(ApiCall("get", resource, namespace, name, meanwhile=meanwhile))

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page:
        """One page; "" as namespace means all. Items carry ``apiVersion`` and ``kind`` too."""
        page: Page = self.call(
            ApiCall(
                "list",
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
            )
        )
        return page

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """Changes after ``resource_version``, in order, with bookmarks; ends after the timeout or sooner.

        The watch is open when the call returns; errors can come then, and between two changes.
        """
        events: Iterator[WatchEvent] = self.call(
            ApiCall(
                "watch",
                resource,
                namespace,
                resource_version=resource_version,
                label_selector=label_selector,
                field_selector=field_selector,
                timeout_seconds=timeout_seconds,
            )
        )
        return events

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """The stored object. Unknown fields are an error (``fieldValidation=Strict``).

        What has neither a name nor a generateName is a question, such as a TokenReview: it is answered, and not stored.
        """
        metadata = _metadata(obj)
        name = metadata.get("name") or metadata.get("generateName") or ""
        return self._object(ApiCall("create", resource, namespace or metadata.get("namespace") or "", name, body=obj))

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """PUT; ``metadata.resourceVersion`` in ``obj`` makes it conditional (Conflict).

        Raises:
            NotFound: the object does not exist, or was removed while the server carried this out.
        """
        metadata = _metadata(obj)
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        return self._object(ApiCall("update", resource, namespace, name, subresource, body=obj))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
    ) -> Object:
        """PATCH, as a merge patch by default.

        Raises:
            NotFound: as ``update``.
        """
        return self._object(ApiCall("patch", resource, namespace, name, subresource, body=patch, patch_type=patch_type))

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """DELETE, optionally only of exactly this object (Conflict otherwise)."""
        self.call(
            ApiCall(
                "delete",
                resource,
                namespace,
                name,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
            )
        )

    def evict(
        self,
        name: str,
        namespace: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete a pod unless a PodDisruptionBudget forbids it (policy/v1 Eviction), optionally only this very pod.

        A pod that is to end, has ended or has not started yet is deleted whatever a budget says. The pod gets the
        condition DisruptionTarget before.

        Args:
            grace_period_seconds: None for that of the pod.
            dry_run: whether it is only asked; the answer is the same, and pod and budget stay as they are.

        Raises:
            OverBudget: a budget forbids it; the pod stays as it is.
            Conflict: it is not the pod, or not the version, that was asked for.
        """
        self.call(
            ApiCall(
                "evict",
                PODS,
                namespace,
                name,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
                dry_run=dry_run,
            )
        )

    def _object(self, call: ApiCall) -> Object:
        answer = self.call(call)
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        known = metadata if isinstance(metadata, dict) else {}
        # A binding or an eviction is carried out, and not stored.
        expected = _STORED if call.name and "/" not in call.resource.plural else ()
        lacking = [name for name in expected if not (isinstance(known.get(name), str) and known[name])]
        if isinstance(answer, dict) and not lacking:
            return answer
        if lacking == ["resourceVersion"] and known.get("deletionTimestamp") and call.verb in ("update", "patch"):
            # Kubernetes 1.38 answers so, with code 200, if somebody else removes the object in that moment.
            raise NotFound(f"{call} {call.name!r}: removed meanwhile", status=404, reason="NotFound")
        raise Unavailable(f"{call} {call.name!r}: the answer is no stored object; missing: {', '.join(lacking)}")


def _metadata(obj: Object) -> Object:
    metadata: Object = obj.get("metadata") or {}
    return metadata
