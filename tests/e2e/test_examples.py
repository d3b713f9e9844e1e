"""Every example of manifests/examples runs, its containers see their devices, and nothing is left afterwards."""

import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import Client, Object, eventually, eventually_none, results
from tests.e2e.container import Published, container_view
from tests.e2e.nodes import leftovers, node_states
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = sorted(file for file in (MANIFESTS / "examples/requests").glob("*.yaml") if file.stem != "kustomization")
NO_DRIVER_FOR_IT = "gpu-and-nic"
"""An example whose network card no driver of the test cluster publishes."""


def example_objects(client: Client, folder: str) -> list[Object]:
    """The objects of a folder of examples, with the image that is on the nodes."""
    with tempfile.TemporaryDirectory() as temporary:
        paths = {name: os.path.relpath(MANIFESTS / name, temporary) for name in (f"examples/{folder}", "loaded-image")}
        resources, components = ([path] for path in paths.values())
        content = {"kind": "Kustomization", "apiVersion": "kustomize.config.k8s.io/v1beta1"}
        Path(temporary, "kustomization.yaml").write_text(
            yaml.safe_dump({**content, "resources": resources, "components": components})
        )
        return [obj for obj in yaml.safe_load_all(client.kubectl("kustomize", temporary)) if obj]


def restrict(client: Client, namespace: str) -> None:
    """From now on the namespace accepts only pods of the level `restricted`."""
    client.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")


def apply(client: Client, objects: list[Object], namespace: str) -> None:
    """Apply objects; those that name no namespace go into `namespace`."""
    for own in (True, False):
        items = [obj for obj in objects if ("namespace" in obj["metadata"]) == own]
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        where = () if own else (f"--namespace={namespace}",)
        if items:
            client.kubectl("apply", *where, "-f", "-", input=content)


def run_all_examples(client: Client, namespace: str) -> list[Object]:
    """Apply all ways to request devices in a restricted namespace, and return the pods when they run."""
    restrict(client, namespace)
    objects = example_objects(client, "requests")
    apply(client, objects, namespace)
    count = sum(_pods(obj) for obj in objects)
    eventually("every pod exists", lambda: len(client.list("pods", namespace)) == count)
    client.wait_until_ready(namespace)
    return client.list("pods", namespace)


_REPLICAS = {"Job": "parallelism", "Deployment": "replicas", "StatefulSet": "replicas"}


def _pods(obj: Object) -> int:
    """How many pods an object stands for, other than a DaemonSet."""
    return int(obj["spec"][_REPLICAS[obj["kind"]]]) if obj["kind"] in _REPLICAS else int(obj["kind"] == "Pod")


def check_views(client: Client, namespace: str, pods: list[Object]) -> None:
    """Every container sees exactly the devices, environment and metadata of the claims that it lists."""
    published, held = Published.read(client), client.claims(namespace)
    for it in pods:
        claims = held[it["metadata"]["name"]]
        for container in it["spec"]["containers"]:
            listed = {entry["name"]: claims[entry["name"]] for entry in container["resources"].get("claims", [])}
            view = container_view(client, namespace, it["metadata"]["name"], container["name"])
            assert view == published.expected(listed), f"{it['metadata']['name']}/{container['name']}"


def check_each_claim_says_which_cards_it_has(client: Client, namespace: str) -> None:
    """`status.devices` has the uuid of each device. Where kube-scheduler allocates, the plugin writes it afterwards."""
    published = Published.read(client)

    def said() -> bool:
        for claim in client.list("resourceclaims", namespace):
            entries = claim["status"].get("devices") or ()
            uuids = {(it["pool"], it["device"]): it.get("data", {}).get("uuid") for it in entries}
            devices = {(it["pool"], it["device"]) for it in results(claim)}
            assert uuids == {key: published.devices[key]["attributes"]["uuid"]["string"] for key in devices}
        return True

    eventually("each claim says which cards it has", said)


def check_each_example_has_the_requested_devices(client: Client, namespace: str, pods: list[Object]) -> None:
    """The attributes of the allocated devices are those that the examples request."""
    published, claims = Published.read(client), client.claims(namespace)
    held: dict[str, list[Object]] = {}
    for it in pods:
        devices = [
            published.devices[result["pool"], result["device"]]
            for claim in claims[it["metadata"]["name"]].values()
            for result in results(claim)
        ]
        example = it["metadata"].get("labels", {}).get("job-name") or it["metadata"]["name"]
        held.setdefault(example, []).extend(device["attributes"] for device in devices)

    def values(example: str, attribute: str) -> list[object]:
        return [next(iter(attributes[attribute].values())) for attributes in held[example]]

    assert {example: len(devices) for example, devices in held.items()} == {
        **{file.stem: 1 for file in EXAMPLES},
        "two-cards-one-numa-node": 2,
        "job-of-four": 4,
        "gang-in-one-ib-cluster": 4,
    }
    assert values("whole-card", "type") == ["H100"]
    assert values("card-by-index", "index") == [3]
    assert values("ib-cluster", "ibCluster") == ["ib-a"]
    assert values("share-4gi", "kind") == ["gpu-share"]
    assert len(set(values("two-cards-one-numa-node", "resource.kubernetes.io/numaNode"))) == 1
    assert values("mig-profile", "profile") == ["1g.5gb"]
    assert values("vnpu-template", "profile") == ["vir02_1c"]
    assert values("shared-claim", "kind") == ["npu"]
    assert len(set(values("job-of-four", "uuid"))) == 4
    assert len(set(values("gang-in-one-ib-cluster", "ibCluster"))) == 1


def test_all_examples_run_at_once_and_see_exactly_their_devices(client: Client, namespace: str) -> None:
    pods = run_all_examples(client, namespace)
    check_each_example_has_the_requested_devices(client, namespace, pods)
    check_each_claim_says_which_cards_it_has(client, namespace)
    check_views(client, namespace, pods)


def test_workloads_of_every_kind_run_and_see_exactly_their_devices(client: Client, namespace: str) -> None:
    restrict(client, namespace)
    objects = example_objects(client, "workloads")
    apply(client, objects, namespace)
    try:
        count = sum(_pods(obj) for obj in objects)
        eventually("every pod exists", lambda: len(client.list("pods", namespace)) == count)
        client.delete(namespace, "pod", NO_DRIVER_FOR_IT)
        client.wait_until_ready(namespace)
        pods = client.list("pods", namespace)
        assert len(pods) == count - 1
        ready = {it["metadata"]["name"]: it for it in pods}
        both = [ready.pop(f"claim-of-two-pods-{name}")["metadata"]["name"] for name in "ab"]
        first, second = (container_view(client, namespace, name, "main").devices for name in both)
        assert first == second
        assert len(first) == 1
        (chosen,) = results(client.claims(namespace)["first-available"]["gpu"])
        assert chosen["request"].startswith("card/")
        del ready["first-available"]
        check_views(client, namespace, list(ready.values()))
    finally:
        client.kubectl("delete", "deviceclass", "nic.example.com", "--ignore-not-found")


def test_examples_for_administrators_take_effect(client: Client, namespace: str) -> None:
    restrict(client, namespace)
    worker = client.cluster.workers[0]
    objects = example_objects(client, "administration")
    rules_served = "devicetaintrules.resource.k8s.io" in client.kubectl("api-resources", "--output=name")
    objects = [obj for obj in objects if rules_served or obj["kind"] != "DeviceTaintRule"]
    names = [f"{obj['kind']}/{obj['metadata']['name']}" for obj in objects if "namespace" not in obj["metadata"]]
    client.kubectl("label", "node", worker, "example.com/monitor-gpus=true")
    try:
        namespaces = [obj for obj in objects if obj["kind"] == "Namespace"]
        apply(client, namespaces, namespace)
        apply(client, [obj for obj in objects if obj["kind"] != "Namespace"], namespace)
        client.wait_until_ready(namespace)
        client.kubectl("rollout", "status", "ds/monitoring", "-n", "lode-monitoring", "--timeout=120s", timeout=130)
        quota = client.get("resourcequotas", "devices", namespace)
        assert quota["spec"]["hard"]["gpu.lode.dev.deviceclass.resource.k8s.io/devices"] == "4"
        (monitored,) = client.list("resourceclaims", "lode-monitoring")
        assert all(result["adminAccess"] for result in results(monitored))
    finally:
        client.kubectl("label", "node", worker, "example.com/monitor-gpus-")
        client.delete(namespace, "pod", "own-class")
        client.kubectl("delete", "--ignore-not-found", f"--namespace={namespace}", *names, timeout=120)


def test_a_container_that_lists_no_claim_sees_nothing(client: Client, namespace: str) -> None:
    both = pod("half", "one")
    both["spec"]["containers"].append({**both["spec"]["containers"][0], "name": "bystander", "resources": {}})
    client.create(namespace, template("one", request()), both)
    client.wait_until_ready(namespace)
    check_views(client, namespace, client.list("pods", namespace))
    assert not container_view(client, namespace, "half", "bystander").devices


def test_a_container_sees_only_the_requests_it_lists(client: Client, namespace: str) -> None:
    split = pod("split", "two")
    main = split["spec"]["containers"][0]
    first, second = ({"claims": [{"name": "c0", "request": name}]} for name in ("left", "right"))
    split["spec"]["containers"] = [{**main, "resources": first}, {**main, "name": "other", "resources": second}]
    client.create(namespace, template("two", request(name="left"), request(name="right")), split)
    client.wait_until_ready(namespace)
    device = {result["request"]: result["device"] for result in results(client.claims(namespace)["split"]["c0"])}
    assert container_view(client, namespace, "split", "main").devices == {device["left"]}
    assert container_view(client, namespace, "split", "other").devices == {device["right"]}


def test_kubectl_shows_a_claim_pending_then_allocated_and_reserved(client: Client, namespace: str) -> None:
    queued = pod("queued", "one", schedulingGates=[{"name": "example.com/queue"}])
    client.create(namespace, template("one", request()), queued)
    assert eventually("the claim exists", lambda: states(client, namespace)) == ["pending"]
    eventually("the gate is set", lambda: len(client.get("pods", "queued", namespace)["spec"]["schedulingGates"]) == 2)
    shown: list[str] = []
    with client.streaming("get", "resourceclaims", f"--namespace={namespace}", "--watch", "--no-headers") as process:
        thread = threading.Thread(target=_follow, args=(process, shown))
        thread.start()
        eventually("kubectl shows the claim as pending", lambda: shown == ["pending"])
        patch = json.dumps({"spec": {"schedulingGates": [{"name": "lode.dev/allocation"}]}})
        client.kubectl("patch", "pod", "queued", f"--namespace={namespace}", "--type=merge", "-p", patch)
        client.wait_until_ready(namespace)
        eventually("kubectl shows the claim as allocated", lambda: shown[-1:] == ["allocated,reserved"])
    thread.join(timeout=10)


def states(client: Client, namespace: str) -> list[str]:
    printed = client.kubectl("get", "resourceclaims", f"--namespace={namespace}", "--no-headers")
    return [line.split()[1] for line in printed.splitlines() if "No resources" not in line]


def _follow(process: "subprocess.Popen[str]", shown: list[str]) -> None:
    assert process.stdout
    for line in process.stdout:
        state = line.split()[1]
        if shown[-1:] != [state]:
            shown.append(state)


def test_deleting_a_pod_frees_its_devices_on_the_node_and_in_the_cluster(
    client: Client, namespace: str, watcher: Watcher
) -> None:
    client.create(namespace, template("one", request()), pod("brief", "one"))
    client.wait_until_ready(namespace)
    node = client.get("pods", "brief", namespace)["spec"]["nodeName"]
    uid = client.claims(namespace)["brief"]["c0"]["metadata"]["uid"]
    state = node_states(client)[node]
    assert uid in state.prepared
    assert any(uid in file for file in state.files)
    client.delete(namespace, "pod", "brief")
    eventually("the claim is gone", lambda: not client.list("resourceclaims", namespace))
    eventually_none("nothing is held", lambda: watcher.held(namespace))
    assert leftovers(client, {uid}) == {}


@pytest.mark.parametrize("outcome", ["exit 0", "exit 1"])
def test_a_finished_pod_frees_its_devices(client: Client, namespace: str, watcher: Watcher, outcome: str) -> None:
    ending = pod("ending", "one", restartPolicy="Never")
    ending["spec"]["containers"][0]["command"] = ["sh", "-c", f"sleep 1; {outcome}"]
    client.create(namespace, template("one", request()), ending)
    phases = ("Succeeded", "Failed")
    eventually("the pod has ended", lambda: client.get("pods", "ending", namespace)["status"]["phase"] in phases)
    eventually_none("nothing is held", lambda: watcher.held(namespace))
