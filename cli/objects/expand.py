"""The objects that controllers of Kubernetes create: pods of workloads, claims of templates.

Names are those that the controllers give. Where they choose letters at random, the letters here are a hash of the other
names, so that the same input has the same answer.
"""

import hashlib
import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from cli.objects.checks import InputObject, pod_of_template
from driver.kube.api import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, RESOURCE_CLAIMS, STATEFUL_SETS, Object, Resource
from driver.kube.objects import controller_of, generated_claim_prefix, unnameable_claim
from driver.names import POD_CLAIM_NAME

MAX_PODS: Final = 10_000
"""Most pods that are created for one workload."""

SENSELESS: Final = (AttributeError, KeyError, TypeError, ValueError)
"""Errors of reading an object that has a value of the wrong type."""
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_BASE_LENGTH: Final = 58
"""Characters of a generated name before its five random letters (apiserver names.MaxGeneratedNameLength)."""
_UID_NAMESPACE: Final = uuid.UUID("7c0e9d52-40a4-4a7d-93bb-6e0f0a1c2d11")


def uid_of(*parts: str) -> str:
    """A uid for an object that has none; equal parts give equal uids."""
    return str(uuid.uuid5(_UID_NAMESPACE, "/".join(parts)))


def _generated(base: str, *parts: str) -> str:
    digest = hashlib.sha256("/".join((base, *parts)).encode()).digest()
    return base[:_BASE_LENGTH] + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])


# Pods of workloads


def pods_of(workload: InputObject, existing: Iterable[Object]) -> list[Object]:
    """The pods that the workload's controller has yet to create, given the ``existing`` pods of its namespace."""
    spec, namespace, name = workload.object["spec"], workload.key[1], workload.key[2]
    wanted = min(MAX_PODS, wanted_pods(workload))
    own = [pod for pod in existing if _belongs_to(pod, workload.resource, name)]
    bases = list(_bases(workload.resource, name, spec, wanted))
    if workload.resource == STATEFUL_SETS:
        taken = {pod["metadata"]["name"] for pod in own}
        names = [base for base in bases if base not in taken]
    else:
        names = [_generated(base, namespace, str(number)) for number, base in enumerate(bases)][len(own) :]
    return [_pod(workload, pod_name) for pod_name in names]


def wanted_pods(workload: InputObject) -> int:
    """Number of pods that its controller keeps at once; at most ``MAX_PODS`` are created here."""
    return _wanted(workload.resource, workload.object["spec"])


def _wanted(resource: Resource, spec: Mapping[str, object]) -> int:
    def number(name: str, default: int) -> int:
        value = spec.get(name)
        return value if isinstance(value, int) else default

    if resource != JOBS:
        return number("replicas", 1)
    if spec.get("suspend"):
        return 0
    parallel = number("parallelism", 1)
    return min(parallel, number("completions", parallel))


def _bases(resource: Resource, name: str, spec: Object, count: int) -> Iterator[str]:
    """The beginning of each pod's name; the whole name of a pod of a StatefulSet."""
    first = (spec.get("ordinals") or {}).get("start") or 0
    for number in range(count):
        if resource == STATEFUL_SETS:
            yield f"{name}-{first + number}"
        elif resource == JOBS and spec.get("completionMode") == "Indexed":
            yield f"{name}-{number}-"
        elif resource == DEPLOYMENTS:
            yield f"{_generated(f'{name}-', 'template')}-"
        else:
            yield f"{name}-"


def _belongs_to(pod: Object, resource: Resource, name: str) -> bool:
    owner_kind = REPLICA_SETS.kind if resource == DEPLOYMENTS else resource.kind
    owner = controller_of(pod, owner_kind)
    if owner is None:
        return False
    # A ReplicaSet's name is that of its Deployment, a dash and a hash without dashes.
    return bool((owner["name"].rpartition("-")[0] if resource == DEPLOYMENTS else owner["name"]) == name)


def _pod(workload: InputObject, name: str) -> Object:
    pod = pod_of_template(workload.object["spec"]["template"])
    owner = {
        "apiVersion": workload.resource.api_version,
        "kind": workload.resource.kind,
        "name": workload.key[2],
        "uid": uid_of(workload.resource.kind, *workload.key[1:]),
        "controller": True,
    }
    metadata = {**pod["metadata"], "name": name, "namespace": workload.key[1], "ownerReferences": [owner]}
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, **pod, "metadata": metadata}


# Claims of templates


def claims_of(
    pod: Object, templates: Mapping[str, Object], existing: Container[str], owned: Mapping[tuple[str, str], str]
) -> tuple[Object, list[Object]]:
    """The pod with the names of its claims in its status, and the claims yet to be created for it.

    Args:
        templates: ResourceClaimTemplates by ``namespace/name``; a claim whose template is missing is not created, nor
            one that the API server would refuse for its name.
        existing: ``namespace/name`` of the existing claims.
        owned: names of claims created before, by uid of their pod and entry in its spec (``owned_claims``).
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    namespace, uid = metadata["namespace"], metadata["uid"]
    recorded = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    named, created = dict(recorded), []
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        wanted = entry.get("resourceClaimTemplateName")
        if not wanted or (entry["name"] in recorded and not recorded[entry["name"]]):
            # An entry recorded without a name needs no claim (core/v1 PodResourceClaimStatus).
            continue
        name = recorded.get(entry["name"]) or owned.get((uid, entry["name"]), "")
        template = templates.get(f"{namespace}/{wanted}")
        nameable = name or not unnameable_claim(metadata["name"], entry["name"])
        if template is not None and nameable and f"{namespace}/{name}" not in existing:
            name = name or _generated(generated_claim_prefix(metadata["name"], entry["name"]), namespace)
            created.append(_claim(pod, entry["name"], name, template))
        if name:
            named[entry["name"]] = name
    if named == recorded:
        return pod, created
    statuses = [{"name": entry, **({"resourceClaimName": name} if name else {})} for entry, name in named.items()]
    return {**pod, "status": {**status, "resourceClaimStatuses": statuses}}, created


def owned_claims(claims: Iterable[Object]) -> dict[tuple[str, str], str]:
    """Names of the claims that were created from templates, by uid of their pod and entry in its spec."""
    names = {}
    for claim in claims:
        with suppress(*SENSELESS):
            metadata, owner = claim["metadata"], controller_of(claim, PODS.kind)
            entry = (metadata.get("annotations") or {}).get(POD_CLAIM_NAME)
            if owner and entry:
                names[owner["uid"], entry] = metadata["name"]
    return names


def _claim(pod: Object, entry: str, name: str, template: Object) -> Object:
    metadata, template_metadata = pod["metadata"], template["spec"].get("metadata") or {}
    owner = {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": uid_of(metadata["uid"], entry),
            "labels": dict(template_metadata.get("labels") or {}),
            "annotations": {**(template_metadata.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [owner],
        },
        "spec": template["spec"]["spec"],
    }
