"""Every example of manifests/examples runs, its containers see what they were allocated, and nothing stays behind."""

import json
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import Client, Object, eventually, gone, results
from tests.e2e.container import Published, seen
from tests.e2e.nodes import files, left, prepared
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

EXAMPLES = sorted((Path(__file__).parents[2] / "manifests/examples").glob("*.yaml"))


def run_all_examples(client: Client, space: str) -> list[Object]:
    """Apply the whole folder, as the README says, and return the pods once they run."""
    client.kubectl("apply", f"--namespace={space}", "-f", str(EXAMPLES[0].parent))
    wanted = sum(_pods(file) for file in EXAMPLES)
    eventually("every pod is there", lambda: len(client.list("pods", space)) == wanted)
    client.wait_until_ready(space)
    return client.list("pods", space)


def _pods(file: Path) -> int:
    kinds = [obj for obj in yaml.safe_load_all(file.read_text()) if obj["kind"] in ("Pod", "Job")]
    return sum(obj["spec"].get("parallelism", 1) for obj in kinds)


def check_views(client: Client, space: str, pods: list[Object]) -> None:
    """Every container sees the devices, environment and metadata of the claims it lists, exactly."""
    published, held = Published.read(client), client.claims(space)
    for it in pods:
        claims = held[it["metadata"]["name"]]
        for container in it["spec"]["containers"]:
            listed = {entry["name"]: claims[entry["name"]] for entry in container["resources"].get("claims", [])}
            view = seen(client, space, it["metadata"]["name"], container["name"])
            assert view == published.expected(listed), f"{it['metadata']['name']}/{container['name']}"


def check_each_example_got_what_it_asks_for(client: Client, space: str, pods: list[Object]) -> None:
    """The attributes of the allocated devices are those the examples select by."""
    published, claims = Published.read(client), client.claims(space)
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


def test_all_examples_run_at_once_and_see_exactly_what_they_were_allocated(client: Client, space: str) -> None:
    pods = run_all_examples(client, space)
    check_each_example_got_what_it_asks_for(client, space, pods)
    check_views(client, space, pods)


def test_a_container_that_lists_no_claim_sees_nothing(client: Client, space: str) -> None:
    both = pod("half", "one")
    both["spec"]["containers"].append({**both["spec"]["containers"][0], "name": "bystander", "resources": {}})
    client.create(space, template("one", request()), both)
    client.wait_until_ready(space)
    check_views(client, space, client.list("pods", space))
    assert not seen(client, space, "half", "bystander").devices


def test_a_container_sees_only_the_requests_it_lists(client: Client, space: str) -> None:
    split = pod("split", "two")
    main = split["spec"]["containers"][0]
    first, second = ({"claims": [{"name": "c0", "request": name}]} for name in ("left", "right"))
    split["spec"]["containers"] = [{**main, "resources": first}, {**main, "name": "other", "resources": second}]
    client.create(space, template("two", request(name="left"), request(name="right")), split)
    client.wait_until_ready(space)
    device = {result["request"]: result["device"] for result in results(client.claims(space)["split"]["c0"])}
    assert seen(client, space, "split", "main").devices == {device["left"]}
    assert seen(client, space, "split", "other").devices == {device["right"]}


def test_kubectl_shows_a_claim_pending_then_allocated_and_reserved(client: Client, space: str) -> None:
    queued = pod("queued", "one", schedulingGates=[{"name": "example.com/queue"}])
    client.create(space, template("one", request()), queued)
    assert eventually("the claim is there", lambda: states(client, space)) == ["pending"]
    eventually("the gate is set", lambda: len(client.get("pod", "queued", space)["spec"]["schedulingGates"]) == 2)
    shown: list[str] = []
    with client.following("get", "resourceclaims", f"--namespace={space}", "--watch", "--no-headers") as process:
        thread = threading.Thread(target=_follow, args=(process, shown))
        thread.start()
        eventually("kubectl shows it pending", lambda: shown == ["pending"])
        patch = json.dumps({"spec": {"schedulingGates": [{"name": "lode.dev/allocation"}]}})
        client.kubectl("patch", "pod", "queued", f"--namespace={space}", "--type=merge", "-p", patch)
        client.wait_until_ready(space)
        eventually("kubectl shows it", lambda: shown[-1:] == ["allocated,reserved"])
    thread.join(timeout=10)


def states(client: Client, space: str) -> list[str]:
    printed = client.kubectl("get", "resourceclaims", f"--namespace={space}", "--no-headers")
    return [line.split()[1] for line in printed.splitlines() if "No resources" not in line]


def _follow(process: "subprocess.Popen[str]", shown: list[str]) -> None:
    assert process.stdout
    for line in process.stdout:
        state = line.split()[1]
        if shown[-1:] != [state]:
            shown.append(state)


def test_deleting_a_pod_frees_its_devices_on_the_node_and_in_the_cluster(
    client: Client, space: str, watcher: Watcher
) -> None:
    client.create(space, template("one", request()), pod("brief", "one"))
    client.wait_until_ready(space)
    node = client.get("pod", "brief", space)["spec"]["nodeName"]
    uid = client.claims(space)["brief"]["c0"]["metadata"]["uid"]
    assert uid in prepared(client, node)
    assert any(uid in file for file in files(client, node))
    client.delete(space, "pod", "brief")
    eventually("the claim is gone", lambda: not client.list("resourceclaims", space))
    gone("nothing is held", lambda: watcher.held(space))
    assert left(client, {uid}) == {}


@pytest.mark.parametrize("outcome", ["exit 0", "exit 1"])
def test_a_pod_that_ends_gives_its_devices_back_though_it_stays_listed(
    client: Client, space: str, watcher: Watcher, outcome: str
) -> None:
    ending = pod("ending", "one", restartPolicy="Never")
    ending["spec"]["containers"][0]["command"] = ["sh", "-c", f"sleep 1; {outcome}"]
    client.create(space, template("one", request()), ending)
    phases = ("Succeeded", "Failed")
    eventually("it has ended", lambda: client.get("pod", "ending", space)["status"]["phase"] in phases)
    gone("nothing is held", lambda: watcher.held(space))
