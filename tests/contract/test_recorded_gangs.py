"""Pods exactly as the controllers of other projects make them start as gangs, beside real Kubernetes components.

The controllers themselves are not there. So owners that do not exist are left out, and Jobs are marked as managed by
somebody else, because the pods that they would get exist already.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, Api, NotFound, Object
from tests.contract.conftest import eventually
from tests.contract.running import message_of, nodes_of, remove, running
from tests.unit.controller.filled_state import placement_config
from tests.unit.controller.membership.test_recorded_pods import KINDS, RECORDED

NAMES = ("n1", "n2", "n3")
TOPOLOGY = {"cloud.provider.com/topology-block": "b1", "cloud.provider.com/topology-rack": "r1"}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The administrator of a cluster in which all cards are in one leaf."""
    tiers = {"1": {"attribute": "lode.dev/ibLeaf"}}
    cards = {"ibCluster": "a", "ibLeaf": "l1"}
    with running(dict.fromkeys(NAMES, TOPOLOGY), tiers, cards) as (_, api):
        yield api


def is_told_of(api: Api, pod: str, gang: str) -> bool:
    """Whether the pod waits as a member of the gang. At first its claim may just be missing."""
    return message_of(api, pod).startswith(f"gang {gang}: ")


def created(obj: Object, owners: dict[str, str], made: list[Any], api: Api) -> None:
    """Create the object as if its controller did; ``owners`` maps recorded uids to those that objects got."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: value for key, value in obj["metadata"].items() if key in kept}
    existing = [one for one in obj["metadata"].get("ownerReferences", ()) if one["uid"] in owners]
    metadata["ownerReferences"] = [{**one, "uid": owners[one["uid"]]} for one in existing]
    spec = {key: value for key, value in obj["spec"].items() if key not in ("schedulingGates", "selector")}
    kind = KINDS[obj["apiVersion"], obj["kind"]]
    if kind.kind == "Job":
        spec["managedBy"] = "lode.dev/recorded"
    stored = api.create(kind, {"metadata": metadata, "spec": spec})
    owners[obj["metadata"]["uid"]] = stored["metadata"]["uid"]
    made.append((kind, metadata["name"]))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_pods_of_a_controller_start_together(path: Path, api: Api) -> None:
    recorded = yaml.safe_load(path.read_text())
    for node in NAMES:
        api.patch(NODES, node, {"spec": {"unschedulable": True}})
    asked = placement_config(**recorded["placementConfig"]) if recorded["placementConfig"] else {}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}]
    spec = {"spec": {"devices": {"requests": requests, **asked}}}
    api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "gpus", "namespace": "default"}, "spec": spec})
    owners: dict[str, str] = {}
    made: list[Any] = []
    for obj in recorded["objects"]:
        created(obj, owners, made, api)
    pods = [name for kind, name in made if kind == PODS]
    for expected in recorded["expected"]:
        for pod in expected["ranks"]:
            eventually(partial(is_told_of, api, pod, expected["gang"]))
    for node in NAMES:
        api.patch(NODES, node, {"spec": {"unschedulable": None}})
    eventually(lambda: nodes_of(api, *pods), 60)
    remove(api, *pods)
    for kind, name in made:
        # What a pod owns goes with it.
        with suppress(NotFound):
            api.delete(kind, name, "default")
    api.delete(RESOURCE_CLAIM_TEMPLATES, "gpus", "default")
