"""Everything wrong with the input is said at once: file, document, object, field, value, remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main as lode
from cli.objects.checks import check
from cli.objects.documents import Document, Origin
from driver.kube.api import Object
from tests.unit.cli.cluster import Answer, claim, node, pod, simulation, slices, stored, template


def faults(*values: Any) -> list[str]:
    documents = [Document(Origin("f", number), value) for number, value in enumerate(values, 1)]
    return [str(fault) for fault in check(documents, "default").faults]


def changed(obj: Object, path: str, value: Any) -> Object:
    name, _, rest = path.partition(".")
    return {**obj, name: changed(obj.get(name) or {}, rest, value) if rest else value}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (17, "f, document 1: must be an object, found 17; give what kubectl get -o yaml prints"),
        ({"kind": "Pod"}, "f, document 1: apiVersion: must be a string, found nothing"),
        ({"apiVersion": "v1", "kind": 5}, "f, document 1: kind: must be a string, found 5"),
        ({"apiVersion": "v1", "kind": "Pod"}, "document 1: Pod: metadata.name: must be the Pod's name, found nothing"),
        (
            changed(claim("c"), "apiVersion", "resource.k8s.io/v1beta1"),
            "f, document 1: ResourceClaim default/c: apiVersion: version not supported: 'resource.k8s.io/v1beta1'; "
            "write resource.k8s.io/v1 (kubectl get resourceclaims.v1.resource.k8s.io -o yaml prints it)",
        ),
        (
            claim("c", expression="device.drive == 1"),
            "f, document 1: ResourceClaim default/c: spec.devices.requests[0].exactly.selectors[0].cel.expression: "
            "Invalid value: 'device.drive == 1': compilation failed",
        ),
        (
            claim("c", cuont=2),
            "f, document 1: ResourceClaim default/c: spec.devices.requests[0].exactly.cuont: unknown field; "
            "remove it or correct its spelling",
        ),
        (
            claim("c", count="two"),
            "ResourceClaim default/c: spec.devices.requests[0].exactly.count: cannot read 'two' as an int64",
        ),
        (pod("p", cpu="much"), "Pod default/p: spec.containers[0].resources.requests[cpu]: cannot read 'much'"),
        (
            changed(pod("p"), "spec.containers", []),
            "f, document 1: Pod default/p: spec.containers: Required value",
        ),
        (template("t", "a b"), "ResourceClaimTemplate default/t: spec.spec.devices.requests[0].exactly.deviceClassN"),
        (changed(node("n"), "status.allocatable.cpu", "x"), "Node n: status.allocatable[cpu]: cannot read 'x'"),
        (stored(changed(node("n"), "spec.taints", 5)), "Node n: spec.taints: cannot read 5 as a list"),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": "3"}},
            "Deployment default/d: spec.replicas: must be a non-negative integer, found '3'",
        ),
        (
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "s"},
                "spec": {"selector": {"matchLabels": {"app": "s"}}, "template": {"spec": pod("x")["spec"]}},
            },
            "StatefulSet default/s: spec.template.metadata.labels: not selected by spec.selector: {}; give the",
        ),
    ],
)
def test_a_fault_is_told_with_its_place_and_remedy(value: Any, says: str) -> None:
    assert says in "\n".join(faults(value))


def test_a_fault_in_a_workloads_template_is_told_where_it_stands() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    spec = {"spec": {"containers": [{"name": "main"}], "claims": []}}
    assert faults({**job, "spec": {"template": spec}}) == [
        "f, document 1: Job default/j: spec.template.spec.claims: unknown field; remove it or correct its spelling"
    ]
    del spec["spec"]["claims"]
    (fault,) = faults({**job, "spec": {"template": spec}})
    assert "Job default/j: spec.template.spec.containers[0].image: Required value" in fault


def test_the_same_object_twice_is_no_fault_but_two_versions_are() -> None:
    assert not faults(claim("c"), claim("c"))
    assert faults(claim("c"), claim("c", count=2)) == [
        "f, document 2: ResourceClaim default/c: metadata.name: another object with this name, which differs: f, "
        "document 1; leave one out"
    ]


def test_fields_that_a_newer_api_server_stored_are_no_fault() -> None:
    objects = [
        stored(claim("c", fieldOfTheFuture=1)),
        stored(pod("p", fieldOfTheFuture=1)),
        *map(stored, slices("g", "t4x2")),
    ]
    assert not faults(*(changed(obj, "spec.fieldOfTheFuture", 1) for obj in objects))


def test_admin_access_needs_the_label_where_the_namespace_is_given() -> None:
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    asks = claim("c", adminAccess=True)
    assert "requires the `resource.kubernetes.io/admin-access: true` label" in faults(space, asks)[0]
    assert not faults(changed(space, "metadata.labels", {"resource.kubernetes.io/admin-access": "true"}), asks)
    assert not faults(asks)


def test_all_faults_of_all_files_come_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([claim("a", cuont=1), claim("b", count="x")]))
    (tmp_path / "b.yaml").write_text("a: [")
    status = lode(["simulate", "-f", str(tmp_path), "-f", str(tmp_path / "absent"), "-o", "json"])
    shown = capsys.readouterr()
    assert status == 2
    answer = Answer(status, shown.out, shown.err)
    assert [(Path(one["file"]).name, one["document"], one["object"]) for one in answer.json["faults"]] == [
        ("a.yaml", 1, "ResourceClaim default/a"),
        ("a.yaml", 2, "ResourceClaim default/b"),
        ("absent", 0, ""),
        ("b.yaml", 1, ""),
    ]
    assert len(shown.err.splitlines()) == 4


def test_a_stored_slice_that_is_damaged_is_told_by_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = stored(slices("g", "t4x2", ("whole",))[0])
    part["spec"]["devices"][0]["capacity"]["memory"]["value"] = "much"
    answer = simulation(capsys, tmp_path, part, claim("c"))
    assert answer.status == 2
    assert "items[0]: ResourceSlice" in answer.err
    assert "spec.devices[0].capacity[memory].value: cannot read 'much' as a quantity such as 4Gi" in answer.err
