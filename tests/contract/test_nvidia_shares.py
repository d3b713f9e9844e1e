"""Where kube-scheduler allocates, claims for shares of a card by NVIDIA's name are refused, and nothing else is."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from charts import built
from testclusters.controlplane import ControlPlane
from tests.contract.identity import Identity, Object, eventually

API = "/apis/resource.k8s.io/{version}/namespaces/default/{plural}?dryRun=All"
KINDS = {"ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates"}
AMOUNT = {"capacity": {"requests": {"memory": "2Gi"}}}


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of a cluster where kube-scheduler allocates, with the classes of NVIDIA's driver."""
    with ControlPlane(components=()) as plane:
        objects = built("scheduler-allocated", "nvidia-dra-names", "nvidia-dra-names-scheduler-allocated")
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
        admin = Identity.admin(plane)
        eventually("the policy is in force", lambda: not _made(admin, _exactly("gpu.nvidia.com", **AMOUNT)).ok)
        yield admin


def _exactly(device_class: str, **more: Any) -> Object:
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, **more}}


def _first(*device_classes: str, **of_last: Any) -> Object:
    wants = [{"name": f"w{number}", "deviceClassName": name} for number, name in enumerate(device_classes)]
    wants[-1] |= of_last
    return {"name": "gpu", "firstAvailable": wants}


def _made(admin: Identity, *requests: Object, kind: str = "ResourceClaim", version: str = "v1") -> Any:
    spec: Object = {"devices": {"requests": list(requests)}}
    body = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "c"},
        "spec": spec if kind == "ResourceClaim" else {"spec": spec},
    }
    return admin.request("POST", API.format(version=version, plural=KINDS[kind]), body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "request_",
    [_exactly("gpu.nvidia.com", **AMOUNT), _first("mig.nvidia.com", "gpu.nvidia.com", **AMOUNT)],
    ids=["exactly", "firstAvailable"],
)
def test_a_share_by_that_name_is_refused_with_what_to_write(admin: Identity, kind: str, request_: Object) -> None:
    answer = _made(admin, _exactly("gpu.nvidia.com") | {"name": "whole"}, request_, kind=kind)
    assert answer.status == 422
    assert "request gpu asks for an amount" in answer.message
    assert "name the class gpu-share.lode.dev for a share of a card, or remove capacity" in answer.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "request_",
    [
        _exactly("gpu.nvidia.com"),
        _exactly("gpu-share.lode.dev", **AMOUNT),
        _exactly("gpu.lode.dev", **AMOUNT),
        _exactly("mig.nvidia.com", **AMOUNT),
        _first("gpu.nvidia.com", "gpu-share.lode.dev", **AMOUNT),
    ],
    ids=["a whole card", "our share", "our card of that size", "a partition of that size", "a card or our share"],
)
def test_everything_else_is_let_through(admin: Identity, kind: str, request_: Object) -> None:
    _made(admin, request_, kind=kind).must()


def test_a_claim_without_requests_is_let_through(admin: Identity) -> None:
    _made(admin).must()
