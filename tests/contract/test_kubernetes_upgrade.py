"""An upgrade of the control plane to the version without a release, under pods with devices and a gang at the gate.

Kubelets are a stand-in, which is the same before and after.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from testclusters.programs import NEWEST, UPCOMING, default_kubernetes_version
from tests.contract.conftest import eventually, needed
from tests.contract.running import nodes_of, state_if_it_fails, waits
from tests.contract.tutorials import Reader, cluster

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        default_kubernetes_version() != UPCOMING,
        reason=f"{UPCOMING} is built before a release only (LODE_KUBERNETES={UPCOMING})",
    ),
]

HOLDERS = {
    "whole": "lode.8-h100",
    "two": "lode.2-a100",
    "share": "lode.share-a100-8gi",
    "beside": "lode.share-a100-4gi",
    "partition": "lode.mig-a100-1g-5gb",
}
"""Templates of pods that have their devices before; `whole` has every H100."""
LATE = {"late": "lode.share-a100-8gi", "npu": "lode.npu"}
GANG = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: four}
spec:
  spec:
    devices:
      requests:
      - name: gpus
        exactly:
          deviceClassName: gpu.lode.dev
          count: 4
          selectors: [{cel: {expression: 'device.attributes["lode.dev"].type == "H100"'}}]
      config:
      - opaque:
          driver: lode.dev
          parameters: {apiVersion: lode.dev/v1alpha1, kind: PlacementConfig, gang: {}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]
      containers: [{name: main, image: none, resources: {claims: [{name: gpus}]}}]
"""
"""A gang that needs every H100."""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with needed(), cluster(tmp_path, NEWEST) as reader, state_if_it_fails(reader.plane):
        yield reader


def test_nothing_moves_and_nothing_is_lost_when_the_control_plane_is_upgraded(reader: Reader) -> None:
    api, plane = reader.api, reader.plane
    start(api, HOLDERS)
    plane.kubectl("apply", "-f", "-", input=GANG)
    gang = eventually(lambda: waiting(api))
    before = kept(api)

    with needed():
        plane.upgrade(UPCOMING)

    assert f'"gitVersion": "v{UPCOMING}.' in plane.kubectl("get", "--raw", "/version").stdout
    start(api, LATE)
    for old, new in zip(before, kept(api), strict=True):
        assert old.items() <= new.items()
    assert waiting(api) == gang
    assert not given_twice(api)

    api.delete(PODS, "whole", "default", grace_period_seconds=0)
    eventually(lambda: nodes_of(api, *gang) == ["lode-worker"] * 2)
    assert not given_twice(api)
    assert len(allocations(api)) == len(HOLDERS) - 1 + len(LATE) + len(gang)


def start(api: Api, pods: dict[str, str]) -> None:
    """Make pods of these templates and wait until they run."""
    for name, template in pods.items():
        claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
        spec = {"resourceClaims": claims, "containers": [container]}
        api.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
    eventually(lambda: all(api.get(PODS, name, "default")["status"]["phase"] == "Running" for name in pods))


def waiting(api: Api) -> Sequence[str]:
    """The pods of the gang, once all of them wait."""
    names = sorted(it["metadata"]["name"] for it in api.list(PODS, label_selector="job-name=train").items)
    return names if len(names) == 2 and all(waits(api, name) for name in names) else []


def kept(api: Api) -> tuple[dict[str, Any], ...]:
    """What must not change: allocations, the nodes of pods that run, and what is published."""
    nodes = {uid(it): it["spec"]["nodeName"] for it in api.list(PODS).items if "nodeName" in it["spec"]}
    return (allocations(api), nodes, {uid(it): it["spec"] for it in api.list(RESOURCE_SLICES).items})


def allocations(api: Api) -> dict[str, Any]:
    """By the uid of the claim."""
    claims = api.list(RESOURCE_CLAIMS).items
    return {uid(it): it["status"]["allocation"] for it in claims if "allocation" in it.get("status", {})}


def given_twice(api: Api) -> set[tuple[str, str]]:
    """Devices that two claims have, other than shares."""
    results = [one for it in allocations(api).values() for one in it["devices"]["results"] if "shareID" not in one]
    devices = [(one["pool"], one["device"]) for one in results]
    return {device for device in devices if devices.count(device) > 1}


def uid(obj: Object) -> str:
    """What tells an object from a later one of the same name."""
    return str(obj["metadata"]["uid"])
