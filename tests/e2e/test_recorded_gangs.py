"""On a real cluster, pods exactly as the controllers of other projects make them start as gangs.

Those controllers are not there. Only what a small machine needs is changed: the image, the CPU that is asked for, and
the names of nodes.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import Client, Object, eventually
from tests.e2e.outside import outside_controller
from tests.e2e.pods import SLEEP, request, template
from tests.e2e.watcher import Watcher
from tests.unit.controller.filled_state import placement_config
from tests.unit.controller.membership.test_recorded_pods import RECORDED

VOLCANO = Path(__file__).parents[1] / "data" / "crds" / "volcano-podgroup.yaml"
GROUPS = "podgroups.scheduling.volcano.sh"
TOPOLOGY = ("cloud.provider.com/topology-block=b1", "cloud.provider.com/topology-rack=r1")
"""The labels of nodes that the recorded pods select."""
RESOURCES = {"requests": {"cpu": "1m"}}


@pytest.fixture(scope="module")
def outside(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A controller with the tiers of Volcano runs; PodGroups are served, and nodes have the labels that pods select."""
    client.kubectl("apply", "-f", str(VOLCANO))
    client.kubectl("wait", "--for=condition=Established", f"crd/{GROUPS}", "--timeout=60s")
    client.kubectl("label", "nodes", *client.cluster.workers, *TOPOLOGY, "--overwrite")
    with (
        outside_controller(client, tmp_path_factory.mktemp("outside")) as controller,
        controller.running(volcanoTiers={"1": {"attribute": "lode.dev/ibCluster"}}),
    ):
        yield
    client.kubectl("label", "nodes", *client.cluster.workers, *(f"{one.partition('=')[0]}-" for one in TOPOLOGY))
    client.kubectl("delete", "crd", GROUPS, "--ignore-not-found", "--timeout=60s", timeout=70)


@pytest.fixture
def cordoned(client: Client) -> Iterator[None]:
    """No node takes pods until the test says so."""
    client.kubectl("cordon", *client.cluster.workers)
    yield
    client.kubectl("uncordon", *client.cluster.workers)


def created(client: Client, namespace: str, obj: Object, owners: dict[str, str]) -> None:
    """Create the object as if its controller did; ``owners`` maps recorded uids to those that objects got."""
    kept = ("name", "labels", "annotations")
    metadata = {key: value for key, value in obj["metadata"].items() if key in kept}
    existing = [one for one in obj["metadata"].get("ownerReferences", ()) if one["uid"] in owners]
    metadata["ownerReferences"] = [{**one, "uid": owners[one["uid"]]} for one in existing]
    spec = {key: value for key, value in obj["spec"].items() if key not in ("schedulingGates", "selector")}
    if obj["kind"] == "Job":
        # The pods that it would get exist already.
        spec["managedBy"] = "lode.dev/recorded"
    if obj["kind"] == "Pod":
        spec = pod_spec(client, spec)
    made = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": spec}
    text = client.kubectl("create", f"--namespace={namespace}", "-f", "-", "-o", "json", input=json.dumps(made))
    owners[obj["metadata"]["uid"]] = json.loads(text)["metadata"]["uid"]


def pod_spec(client: Client, spec: Object) -> Object:
    """The same for this machine."""
    containers = [
        {
            **one,
            "image": "lode-test/busybox:1",
            "imagePullPolicy": "IfNotPresent",
            "command": SLEEP,
            "resources": {**one["resources"], **RESOURCES},
        }
        for one in spec["containers"]
    ]
    selector = dict(spec.get("nodeSelector") or {})
    if host := selector.get("kubernetes.io/hostname"):
        selector["kubernetes.io/hostname"] = client.cluster.workers[int(host.removeprefix("n")) - 1]
    return {**spec, "containers": containers, "nodeSelector": selector, "terminationGracePeriodSeconds": 1}


def waits(client: Client, namespace: str, pod: str, said: str) -> bool:
    """Whether the pod has been told so."""
    return said in client.messages(namespace, pod)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_pods_of_a_controller_start_together(
    client: Client, namespace: str, watcher: Watcher, outside: None, cordoned: None, path: Path
) -> None:
    recorded = yaml.safe_load(path.read_text())
    asked = placement_config(**recorded["placementConfig"]) if recorded["placementConfig"] else {}
    client.create(namespace, template("gpus", request("gpu-share", memory="64Mi"), **asked))
    owners: dict[str, str] = {}
    for obj in recorded["objects"]:
        created(client, namespace, obj, owners)
    for expected in recorded["expected"]:
        said = f"gang {namespace}/{expected['gang'].partition('/')[2]}: "
        for pod in expected["ranks"]:
            eventually(f"{pod} waits with its gang", partial(waits, client, namespace, pod, said))
    assert not watcher.held(namespace)
    client.kubectl("uncordon", *client.cluster.workers)
    client.wait_until_ready(namespace)
