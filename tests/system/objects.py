"""The objects that users create in tests of the whole system."""

from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from driver.kube.api import Object
from simulation.kubernetes.scheduler import REFUSED_ON
from tests.system.other_driver import DRIVER as OTHER_DRIVER
from tests.system.other_driver import SHARED_PORT

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "default"


@cache
def device_classes() -> list[Object]:
    """The DeviceClasses as they are installed. They are shared: read, never change."""
    return list(yaml.safe_load_all((ROOT / "manifests/base/deviceclasses.yaml").read_text()))


EVERY_TAINT: Object = {"operator": "Exists"}
ONE_TAINT: Object = {"key": "test", "operator": "Equal", "value": "x"}


def request(
    device_class: str,
    *,
    count: int = 1,
    name: str = "r",
    selector: str = "",
    tolerates: Sequence[Object] = (),
    admin: bool = False,
    **capacity: str,
) -> Object:
    """A request for ``count`` devices; for every device that matches if that is 0."""
    exactly: Object = {"deviceClassName": device_class}
    exactly |= {"count": count} if count else {"allocationMode": "All"}
    if admin:
        exactly["adminAccess"] = True
    if tolerates:
        exactly["tolerations"] = [*tolerates]
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {"name": name, "exactly": exactly}


def alternatives(*requests: Object) -> Object:
    """A request for the first of these that can be had."""
    wants = [{"name": f"choice-{at}", **one["exactly"]} for at, one in enumerate(requests)]
    return {"name": "r", "firstAvailable": wants}


def devices(*requests: Object, match: str = "", distinct: str = "") -> Object:
    """``spec.devices`` of a claim with several requests, whose devices have equal or different values of attributes."""
    constraints = [{"matchAttribute": f"lode.dev/{match}"}] if match else []
    constraints += [{"distinctAttribute": f"lode.dev/{distinct}"}] if distinct else []
    return {"requests": [*requests], "constraints": constraints}


def attribute(name: str) -> str:
    return f'device.attributes["lode.dev"].{name}'


REQUESTS: dict[str, Object] = {
    "gpu-1": request("gpu.lode.dev"),
    "gpu-2": request("gpu.lode.dev", count=2),
    "gpu-4": request("gpu.lode.dev", count=4),
    "gpu-all": request("gpu.lode.dev", count=0),
    "gpu-tolerant": request("gpu.lode.dev", tolerates=[EVERY_TAINT]),
    "gpu-tolerates-x": request("gpu.lode.dev", tolerates=[ONE_TAINT]),
    "gpu-one-tolerant": devices(
        request("gpu.lode.dev", name="tolerant", tolerates=[EVERY_TAINT]),
        request("gpu.lode.dev", name="strict"),
        match="model",
    ),
    "gpu-pair": devices(request("gpu.lode.dev", count=2), match="model", distinct="uuid"),
    "gpu-or-share": alternatives(request("gpu.lode.dev", count=4), request("gpu-share.lode.dev", memory="8Gi")),
    "share-small": request("gpu-share.lode.dev", memory="4Gi", cores="25"),
    "share-large": request("gpu-share.lode.dev", memory="24Gi", cores="60"),
    "share-all": request("gpu-share.lode.dev"),
    "shares": devices(*(request("gpu-share.lode.dev", name=name, memory="1Gi", cores="5") for name in "abcdefgh")),
    "mig-small": request("mig.lode.dev", selector=f"{attribute('profile')}.startsWith('1g.')"),
    "mig-large": request("mig.lode.dev", selector=f"{attribute('profile')}.startsWith('3g.')"),
    "npu-1": request("npu.lode.dev"),
    "npu-share": request("npu-share.lode.dev", memory="6Gi"),
    "vnpu-small": request("vnpu.lode.dev", selector=f"{attribute('profile')} == 'vir01'"),
    "vnpu-large": request("vnpu.lode.dev", selector=f"{attribute('profile')}.startsWith('vir04')"),
}
"""The requests of pods, by the name of their template; some are the whole of ``spec.devices``."""

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
"""Label of the namespaces in which claims may ask for access beside the users of devices."""
OF_ADMINS: dict[str, Object] = {"gpu-admin": request("gpu.lode.dev", count=0, admin=True)}
"""Requests in such namespaces."""

OF_OTHER_DRIVER: dict[str, Object] = {
    "nic": request(OTHER_DRIVER, selector="!device.allowMultipleAllocations"),
    "nic-share": request(OTHER_DRIVER, selector="device.allowMultipleAllocations", bandwidth="3"),
    "nic-shares": devices(
        request(OTHER_DRIVER, name="a", selector="device.allowMultipleAllocations", bandwidth="1"),
        request(OTHER_DRIVER, name="b", selector="device.allowMultipleAllocations", bandwidth="1"),
    ),
    "port": request(OTHER_DRIVER, selector=SHARED_PORT),
    "ports": devices(*(request(OTHER_DRIVER, name=name, selector=SHARED_PORT) for name in "abcdefghijkl")),
}
"""Requests for devices that kube-scheduler allocates itself."""

IMPOSSIBLE: dict[str, Object] = {
    "too-many": request("gpu.lode.dev", count=17),
    "no-such-class": request("no-such.lode.dev"),
    "no-such-attribute": request("gpu.lode.dev", selector=f"{attribute('colour')} == 'red'"),
}
"""Requests that can never be satisfied, and must not affect other pods."""


def spec_of(device_request: Object) -> Object:
    return {"devices": {**device_request} if "requests" in device_request else {"requests": [device_request]}}


def template(name: str, device_request: Object, namespace: str = NAMESPACE) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec_of(device_request)},
    }


def claim(name: str, device_request: Object, namespace: str = NAMESPACE) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec_of(device_request),
    }


def pod_spec(
    *,
    template_name: str = "",
    claim_name: str = "",
    beside: str = "",
    cpu: str = "10m",
    grace: int = 1,
    priority: int = 0,
    missing: Sequence[str] = (),
    deadline: int = 0,
) -> Object:
    """A pod with one claim, without a claim if neither name is given.

    Args:
        deadline: its ``activeDeadlineSeconds``; 0 for none.
        beside: the template of another claim.
        missing: names of claims that do not exist.
    """
    resources: Object = {"requests": {"cpu": cpu, "memory": "8Mi"}}
    container: Object = {"name": "main", "image": "lode-test/busybox:1", "resources": resources}
    spec: Object = {"terminationGracePeriodSeconds": grace, "containers": [container], "priority": priority}
    if deadline:
        spec["activeDeadlineSeconds"] = deadline
    entries = [
        {"name": "device", "resourceClaimTemplateName": template_name, "resourceClaimName": claim_name},
        {"name": "beside", "resourceClaimTemplateName": beside, "resourceClaimName": ""},
        *({"name": f"missing-{at}", "resourceClaimName": name} for at, name in enumerate(missing)),
    ]
    used = [{key: value for key, value in entry.items() if value} for entry in entries]
    if claims := [entry for entry in used if len(entry) > 1]:
        spec["resourceClaims"] = claims
        resources["claims"] = [{"name": entry["name"]} for entry in claims]
    return spec


def pod(name: str, *, refused_on: Collection[str] = (), **options: Any) -> Object:
    """A pod; ``refused_on`` are nodes that kube-scheduler refuses for a reason nobody else knows."""
    metadata: Object = {"name": name, "namespace": NAMESPACE}
    if refused_on:
        metadata["annotations"] = {REFUSED_ON: ",".join(refused_on)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(**options)}


def taint_rule(name: str, pool: str, device: str = "", value: str = "x") -> Object:
    """Taints the devices of a pool, or of all if that is "", or those of one name there."""
    selected = {"driver": "lode.dev", "pool": pool, "device": device}
    selector = {field: wanted for field, wanted in selected.items() if wanted}
    taint = {"key": "test", "value": value, "effect": "NoSchedule"}
    spec = {"deviceSelector": selector, "taint": taint}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }


def job(name: str, count: int, **options: Any) -> Object:
    spec = {
        "completions": count,
        "parallelism": count,
        "template": {"spec": {"restartPolicy": "Never", **pod_spec(**options)}},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
