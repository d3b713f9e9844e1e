"""``lode simulate`` and ``lode explain`` against a real API server: what kubectl prints is what they read.

A driver name of the test's own keeps it apart from whatever else is in the control plane.
"""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import explain, simulate
from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    NotFound,
    Object,
)
from testclusters import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.objects import pod

DOCS = Path(__file__).parent.parent.parent / "docs" / "simulate.md"
KINDS = "nodes,deviceclasses,resourceslices,resourceclaims,resourceclaimtemplates,pods"


class Place:
    """A namespace, a driver and a node of the test's own: two cards, one template for one of them."""

    def __init__(self, api: Api, plane: ControlPlane, name: str):
        self.api, self.plane, self.name = api, plane, name
        self.driver = f"{name}.example"
        self.kubeconfig = str(plane.kubeconfig())
        api.create(NAMESPACES, {"metadata": {"name": name}})
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", name))
        plane.add_node(name)
        expression = {"cel": {"expression": f"device.driver == '{self.driver}'"}}
        api.create(DEVICE_CLASSES, {"metadata": {"name": self.driver}, "spec": {"selectors": [expression]}})
        devices = [{"name": card, "capacity": {"memory": {"value": "1Gi"}}} for card in ("card-0", "card-1")]
        spec = {"driver": self.driver, "nodeName": name, "devices": devices}
        pool = {"name": f"{name}/{self.driver}", "generation": 1, "resourceSliceCount": 1}
        api.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": {**spec, "pool": pool}})
        self.claim_spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": self.driver}}]}}
        api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "card"}, "spec": {"spec": self.claim_spec}}, name)

    def pod(self, name: str) -> Object:
        """A gated pod that asks for a card, once the resource-claim-controller has made its claim."""
        entry = {"name": "t", "resourceClaimTemplateName": "card"}
        self.api.create(PODS, pod(name, self.name, gates=(f"{self.driver}/allocation",), resourceClaims=[entry]))

        def made() -> Object | None:
            found = self.api.get(PODS, name, self.name)
            return found if found["status"].get("resourceClaimStatuses") else None

        found: Object = eventually(made)
        return found

    def hold(self, user: Object, device: str) -> Object:
        """Allocate the pod's claim, as the controller would."""
        name = user["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        claim = self.api.get(RESOURCE_CLAIMS, name, self.name)
        result = {"request": "r", "driver": self.driver, "pool": f"{self.name}/{self.driver}", "device": device}
        fields = [{"key": "metadata.name", "operator": "In", "values": [self.name]}]
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
            "allocationTimestamp": "2027-01-15T08:00:00Z",
        }
        holder = {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}
        status = {"allocation": allocation, "reservedFor": [holder]}
        return self.api.update(RESOURCE_CLAIMS, {**claim, "status": status}, "status")

    def remove(self) -> None:
        for resource, name in (
            (RESOURCE_SLICES, self.name), (DEVICE_CLASSES, self.driver), (NODES, self.name), (NAMESPACES, self.name),
        ):  # fmt: skip
            try:
                self.api.delete(resource, name)
            except NotFound:
                continue


@pytest.fixture
def place(admin: Api, control_plane: ControlPlane, unique: str) -> Iterator[Place]:
    made = Place(admin, control_plane, unique)
    yield made
    made.remove()


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def devices(answer: Any) -> dict[str, list[str]]:
    return {
        one["name"]: [device["device"] for claim in one["claims"] for device in claim["devices"]]
        for one in answer["pods"]
    }


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_kubectl_prints_is_input(
    place: Place, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.hold(place.pod("a"), "card-1")
    place.pod("b")
    place.pod("c")
    printed = place.plane.kubectl("get", KINDS, "-n", place.name, "-o", form).stdout
    monkeypatch.setattr("sys.stdin", io.StringIO(printed))
    argv = ["-n", place.name, "--driver", place.driver, "-o", "json"]
    assert simulate.main(["-f", "-", *argv]) == 1
    answer = told(capsys)
    assert devices(answer) == {"a": ["card-1"], "b": ["card-0"], "c": []}
    assert [one["result"] for one in answer["pods"]] == ["allocated", "placed", "waiting"]
    assert simulate.main(["--live", "--kubeconfig", place.kubeconfig, *argv]) == 1
    assert told(capsys)["pods"] == answer["pods"]


def test_objects_of_files_come_on_top_of_the_live_cluster(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.hold(place.pod("a"), "card-0")
    template = {"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "card"}]}
    content = {**template, "containers": [{"name": "main", "image": "app:1"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "new"}}
    (tmp_path / "new.yaml").write_text(yaml.safe_dump({**job, "spec": {"template": {"spec": content}}}))
    options = ["-n", place.name, "--driver", place.driver, "--kubeconfig", place.kubeconfig, "-o", "json"]
    assert simulate.main(["--live", "-f", str(tmp_path), *options]) == 0
    answer = told(capsys)
    assert list(devices(answer).values()) == [["card-0"], ["card-1"]]
    assert [one["metadata"]["name"] for one in place.api.list(PODS, namespace=place.name).items] == ["a"]


def test_a_live_pod_and_its_claim_are_explained(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-n", place.name, "--driver", place.driver, "--kubeconfig", place.kubeconfig, "-o", "json"]
    first, second, third = (place.pod(name) for name in ("a", "b", "c"))
    assert explain.main(["pod/a", *options]) == 0
    assert told(capsys)["result"] == "placed"
    held = place.hold(first, "card-0")
    place.hold(second, "card-1")
    assert explain.main([f"claim/{held['metadata']['name']}", *options]) == 0
    answer = told(capsys)
    assert (answer["result"], answer["node"]) == ("allocated", place.name)
    assert answer["claims"][0]["reservedFor"] == ["pods/a"]
    assert explain.main(["pod/c", *options]) == 1
    answer = told(capsys)
    assert answer["reason"] == "Unallocatable"
    mine = [one for one in answer["reasons"]["groups"] if place.name in one["named"]]
    excluded = mine[0]["devices"]["requests"][0]["excluded"]
    assert [(one["count"], one["by"]) for one in excluded] == [(2, "inUse")]
    assert third["metadata"]["name"] == answer["name"]


def test_a_users_missing_rights_are_named_and_the_documented_role_grants_them(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.pod("a")
    user = place.plane.kubeconfig(place.name, ())
    options = ["-n", place.name, "--driver", place.driver, "--kubeconfig", str(user), "-o", "json"]
    assert explain.main(["pod/a", *options]) == 2
    assert f"you may not get pods in namespace {place.name}" in capsys.readouterr().err
    place.plane.kubectl("create", "rolebinding", "view", "--clusterrole=view", f"--user={place.name}", "-n", place.name)
    eventually(lambda: explain.main(["pod/a", *options]) == 2 and "list resourceslices" in capsys.readouterr().err)
    assert simulate.main(["--live", *options]) == 2
    assert "you may not list nodes in the whole cluster" in capsys.readouterr().err
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    role = next(block for block in blocks if "ClusterRole" in block).replace("lode-explain", place.name)
    place.plane.kubectl("apply", "-f", "-", input=role)
    place.plane.kubectl(
        "create", "clusterrolebinding", place.name, f"--clusterrole={place.name}", f"--user={place.name}"
    )
    eventually(lambda: explain.main(["pod/a", *options]) == 0)
    capsys.readouterr()
    assert explain.main(["pod/a", *options]) == 0
    assert told(capsys)["result"] == "placed"


def test_the_namespace_is_that_of_the_kubeconfigs_context(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.pod("a")
    config = yaml.safe_load(Path(place.kubeconfig).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = place.name
    changed = Path(place.kubeconfig).with_name(f"{place.name}.kubeconfig")
    changed.write_text(yaml.safe_dump(config))
    assert explain.main(["a", "--driver", place.driver, "--kubeconfig", str(changed), "-o", "json"]) == 0
    assert told(capsys)["namespace"] == place.name


def test_a_server_that_is_not_there_is_told_with_the_remedy(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load(Path(place.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    changed = Path(place.kubeconfig).with_name(f"{place.name}-gone.kubeconfig")
    changed.write_text(yaml.safe_dump(config))
    assert explain.main(["a", "--kubeconfig", str(changed)]) == 2
    assert "see that the kubeconfig names the right one" in capsys.readouterr().err
