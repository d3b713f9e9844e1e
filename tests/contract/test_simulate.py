"""``lode simulate`` and ``lode explain`` with a real API server: they read what kubectl prints."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from cli.objects.checks import check
from cli.objects.documents import Document, Origin
from driver.kube.api import (
    PODS,
    Api,
    Object,
)
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.sandbox import Sandbox

DOCS = Path(__file__).parent.parent.parent / "docs" / "simulate.md"
KINDS = "nodes,deviceclasses,resourceslices,resourceclaims,resourceclaimtemplates,pods"


@pytest.fixture
def sandbox(admin: Api, control_plane: ControlPlane, unique: str) -> Iterator[Sandbox]:
    created = Sandbox(admin, control_plane, unique)
    yield created
    created.remove()


def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def devices(answer: Any) -> dict[str, list[str]]:
    return {
        one["name"]: [device["device"] for claim in one["claims"] for device in claim["devices"]]
        for one in answer["pods"]
    }


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_output_of_kubectl_is_valid_input(
    sandbox: Sandbox, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox.hold(sandbox.pod("a"), "card-1")
    sandbox.pod("b")
    sandbox.pod("c")
    printed = sandbox.plane.kubectl("get", KINDS, "-n", sandbox.name, "-o", form).stdout
    monkeypatch.setattr("sys.stdin", io.StringIO(printed))
    argv = ["-n", sandbox.name, "--driver", sandbox.driver, "-o", "json"]
    assert lode(["simulate", "-f", "-", *argv]) == 1
    answer = output(capsys)
    assert devices(answer) == {"a": ["card-1"], "b": ["card-0"], "c": []}
    assert [one["result"] for one in answer["pods"]] == ["allocated", "placed", "waiting"]
    assert lode(["simulate", "--live", "--kubeconfig", sandbox.kubeconfig, *argv]) == 1
    assert output(capsys)["pods"] == answer["pods"]


def test_objects_of_files_are_added_to_the_live_cluster(
    sandbox: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox.hold(sandbox.pod("a"), "card-0")
    template = {"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "card"}]}
    content = {**template, "restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "new"}}
    (tmp_path / "new.yaml").write_text(yaml.safe_dump({**job, "spec": {"template": {"spec": content}}}))
    options = ["-n", sandbox.name, "--driver", sandbox.driver, "--kubeconfig", sandbox.kubeconfig, "-o", "json"]
    assert lode(["simulate", "--live", "-f", str(tmp_path), *options]) == 0
    answer = output(capsys)
    assert list(devices(answer).values()) == [["card-0"], ["card-1"]]
    assert [one["metadata"]["name"] for one in sandbox.api.list(PODS, namespace=sandbox.name).items] == ["a"]


def test_a_live_pod_and_its_claim_are_explained(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-n", sandbox.name, "--driver", sandbox.driver, "--kubeconfig", sandbox.kubeconfig, "-o", "json"]
    first, second, third = (sandbox.pod(name) for name in ("a", "b", "c"))
    assert lode(["explain", "pod/a", *options]) == 0
    assert output(capsys)["result"] == "placed"
    held = sandbox.hold(first, "card-0")
    sandbox.hold(second, "card-1")
    assert lode(["explain", f"claim/{held['metadata']['name']}", *options]) == 0
    answer = output(capsys)
    assert (answer["result"], answer["node"]) == ("allocated", sandbox.name)
    assert answer["claims"][0]["reservedFor"] == ["pods/a"]
    assert lode(["explain", "pod/c", *options]) == 1
    answer = output(capsys)
    assert answer["reason"] == "Unallocatable"
    mine = [one for one in answer["reasons"]["groups"] if sandbox.name in one["named"]]
    excluded = mine[0]["devices"]["requests"][0]["excluded"]
    assert [(one["count"], one["by"]) for one in excluded] == [(2, "inUse")]
    assert third["metadata"]["name"] == answer["name"]


def test_a_users_missing_rights_are_named_and_the_documented_role_grants_them(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox.pod("a")
    user = sandbox.plane.kubeconfig(sandbox.name, ())
    options = ["-n", sandbox.name, "--driver", sandbox.driver, "--kubeconfig", str(user), "-o", "json"]
    assert lode(["explain", "pod/a", *options]) == 2
    assert f"you may not get pods in namespace {sandbox.name}" in capsys.readouterr().err
    sandbox.plane.kubectl(
        "create", "rolebinding", "view", "--clusterrole=view", f"--user={sandbox.name}", "-n", sandbox.name
    )
    eventually(lambda: lode(["explain", "pod/a", *options]) == 2 and "list resourceslices" in capsys.readouterr().err)
    assert lode(["simulate", "--live", *options]) == 2
    assert "you may not list nodes in the whole cluster" in capsys.readouterr().err
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    role = next(block for block in blocks if "ClusterRole" in block).replace("lode-explain", sandbox.name)
    sandbox.plane.kubectl("apply", "-f", "-", input=role)
    sandbox.plane.kubectl(
        "create", "clusterrolebinding", sandbox.name, f"--clusterrole={sandbox.name}", f"--user={sandbox.name}"
    )
    eventually(lambda: lode(["explain", "pod/a", *options]) == 0)
    capsys.readouterr()
    assert lode(["explain", "pod/a", *options]) == 0
    assert output(capsys)["result"] == "placed"


def test_the_namespace_is_that_of_the_kubeconfigs_context(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    sandbox.pod("a")
    config = yaml.safe_load(Path(sandbox.kubeconfig).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = sandbox.name
    changed = Path(sandbox.kubeconfig).with_name(f"{sandbox.name}.kubeconfig")
    changed.write_text(yaml.safe_dump(config))
    assert lode(["explain", "a", "--driver", sandbox.driver, "--kubeconfig", str(changed), "-o", "json"]) == 0
    assert output(capsys)["namespace"] == sandbox.name


POD_SPEC: Object = {"containers": [{"name": "main", "image": "app:1"}]}
LABELLED: Object = {"metadata": {"labels": {"app": "w"}}, "spec": POD_SPEC}
SELECTOR: Object = {"matchLabels": {"app": "w"}}
OFTEN: Object = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["w", "v"]}]}
WORKLOADS: list[tuple[str, Object, str]] = [
    ("Job", {"template": {"spec": POD_SPEC}}, "spec.template.spec.restartPolicy"),
    ("Job", {"template": {"spec": {**POD_SPEC, "restartPolicy": "OnFailure"}}}, ""),
    *(
        (kind, spec, field)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet")
        for spec, field in [
            ({"template": LABELLED}, "spec.selector"),
            ({"template": LABELLED, "selector": {}}, "spec.selector"),
            ({"template": {"spec": POD_SPEC}, "selector": SELECTOR}, "spec.template.metadata.labels"),
            ({"template": LABELLED, "selector": {"matchLabels": {"app": "v"}}}, "spec.template.metadata.labels"),
            (
                {"template": {**LABELLED, "spec": {**POD_SPEC, "restartPolicy": "Never"}}, "selector": SELECTOR},
                "spec.template.spec.restartPolicy",
            ),
            ({"template": LABELLED, "selector": SELECTOR}, ""),
            ({"template": LABELLED, "selector": OFTEN}, ""),
        ]
    ),
]


@pytest.mark.parametrize(("kind", "spec", "field"), WORKLOADS)
def test_a_workload_is_refused_if_the_api_server_refuses_it(
    control_plane: ControlPlane, kind: str, spec: Object, field: str
) -> None:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    written = {"apiVersion": group, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    arguments = ("apply", "--server-side", "--dry-run=server", "-f", "-")
    done = control_plane.kubectl(*arguments, input=json.dumps(written), check=False)
    assert field in done.stderr
    assert bool(done.returncode) == bool(field)
    faults = check([Document(Origin("f", 1), written)], "default").faults
    assert [fault.field for fault in faults] == ([field] if field else [])


def test_the_documented_workload_is_accepted_by_the_api_server(control_plane: ControlPlane) -> None:
    (block,) = [it for it in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "StatefulSet" in it]
    control_plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=block)


def test_an_unreachable_server_is_reported_with_a_remedy(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load(Path(sandbox.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    changed = Path(sandbox.kubeconfig).with_name(f"{sandbox.name}-gone.kubeconfig")
    changed.write_text(yaml.safe_dump(config))
    assert lode(["explain", "a", "--kubeconfig", str(changed)]) == 2
    assert "see that the kubeconfig names the right one" in capsys.readouterr().err
