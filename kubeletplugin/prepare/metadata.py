"""Device metadata files, in which a container reads about the devices of one request (KEP-5304). Pure.

Paths and content follow k8s.io/dynamic-resource-allocation/api/metadata: one file per request, mounted read-only at a
path that pod authors know in advance. It holds the same object once per API version, the newest first.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from driver.kube.codec import encode_object
from driver.model import Device, DeviceId, Result
from driver.parameters import main_request
from driver.wire import device_to
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan

API_VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
CONTAINER_ROOT = "/var/run/kubernetes.io/dra-device-attributes"


def container_path(plan: ClaimPlan, request: str, driver: str) -> str:
    """Path of the file of a main request in containers."""
    if plan.pod_claim_name:
        claim = f"resourceclaimtemplates/{plan.pod_claim_name}"
    else:
        claim = f"resourceclaims/{plan.ref.name}"
    return f"{CONTAINER_ROOT}/{claim}/{request}/{driver}-metadata.json"


def file_name(ref: ClaimRef, request: str) -> str:
    """The file's name on the node, unique to the claim's uid and the main request."""
    return f"{ref.uid}_{request}.json"


def claim_uid(name: str) -> str:
    """The uid of the claim to which a file of this name belongs."""
    return name.partition("_")[0]


def documents(plan: ClaimPlan, devices: Mapping[str, Device], driver: str) -> dict[str, bytes]:
    """The content of every file, by main request. Equal plans on equal devices give equal bytes."""
    by_request: dict[str, list[Result]] = {}
    for result in plan.results:
        by_request.setdefault(result.request, []).append(result)
    return {
        main_request(request): _document(plan, request, [_device(result, devices, driver) for result in results])
        for request, results in by_request.items()
    }


def plan_in(content: bytes) -> ClaimPlan | None:
    """The plan of a claim as far as its metadata file has it; None if the file cannot be read.

    The file has the devices of a request without their amounts. A share gets the claim's uid as its id.
    """
    try:
        document = json.JSONDecoder().raw_decode(content.decode())[0]
        metadata = document["metadata"]
        ref = ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"])
        results = tuple(
            Result(request["name"], DeviceId(each["driver"], each["pool"], each["name"]), _share_id(ref, each["name"]))
            for request in document["requests"]
            for each in request["devices"]
        )
        texts = [ref.namespace, ref.name, ref.uid, pod_claim_name := document.get("podClaimName", "")]
        texts += [text for it in results for text in (it.request, it.device.driver, it.device.pool)]
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return ClaimPlan(ref, results, pod_claim_name) if all(isinstance(text, str) for text in texts) else None


def _share_id(ref: ClaimRef, device: str) -> str:
    return ref.uid if device.endswith("-share") else ""


def _document(plan: ClaimPlan, request: str, devices: Sequence[dict[str, Any]]) -> bytes:
    ref = plan.ref
    content = {
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid, "generation": 1},
        **({"podClaimName": plan.pod_claim_name} if plan.pod_claim_name else {}),
        "requests": [{"name": request, "devices": devices}],
    }
    return b"".join(
        encode_object({"kind": "DeviceMetadata", "apiVersion": version, **content}) + b"\n" for version in API_VERSIONS
    )


def _device(result: Result, devices: Mapping[str, Device], driver: str) -> dict[str, Any]:
    attributes = device_to(devices[result.device.device], driver)["attributes"]
    return {"driver": driver, "pool": result.device.pool, "name": result.device.device, "attributes": attributes}
