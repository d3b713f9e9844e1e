"""``lode convert`` on files: what stays as it is, what is written beside it, and what it says."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from driver.yaml_values import MAX_DEPTH
from tests.unit.cli.cluster import Answer
from tests.unit.cli.convert.converted import CARD, converted, given, pod_with

POD = """\
# What trains at night.
apiVersion: v1
kind: Pod
metadata:
    name: train   # four columns
spec:
    restartPolicy: 'Never'

    containers:
      - name: main
        image: "app:1"  # pinned
        resources:
            requests: {cpu: 500m}
            limits:
                memory: 0x10
                # One of the large ones.
                nvidia.com/gpu: 1 # whole
                nvidia.com/gpumem: 3000
            # Nothing more.
        env: [{name: A, value: "yes"}]
"""


@pytest.fixture
def lode(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    def call(*argv: str, stdin: str = "") -> Answer:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = main(["convert", *argv])
        shown = capsys.readouterr()
        return Answer(status, shown.out, shown.err)

    return call


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": pod_with(CARD)["spec"]}


def test_only_what_was_converted_differs_and_comments_stay() -> None:
    done = converted(POD)
    assert not done.faults
    pod, _, template = done.text.partition("---\n")
    assert pod == (
        POD.replace("                nvidia.com/gpu: 1 # whole\n                nvidia.com/gpumem: 3000\n", "").replace(
            "            # Nothing more.\n        env",
            "            claims:\n            - name: gpu\n            # Nothing more.\n        env",
        )
        + "    resourceClaims:\n      - name: gpu\n        resourceClaimTemplateName: train-gpu\n"
    )
    assert template.startswith("# In place of\n#   nvidia.com/gpu: 1 # whole\n#   nvidia.com/gpumem: 3000\napiVersion")
    assert yaml.safe_load(template)["metadata"] == {"name": "train-gpu"}


def test_the_result_is_left_alone() -> None:
    text = converted(POD).text
    assert converted(text).text == text


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("apps/v1 Deployment", {"template": TEMPLATE}),
        ("apps/v1 StatefulSet", {"template": TEMPLATE}),
        ("apps/v1 DaemonSet", {"template": TEMPLATE}),
        ("apps/v1 ReplicaSet", {"template": TEMPLATE}),
        ("batch/v1 Job", {"template": TEMPLATE}),
        ("batch/v1 CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}),
        ("jobset.x-k8s.io/v1alpha2 JobSet", {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]}),
        ("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}}),
        ("batch.volcano.sh/v1alpha1 Job", {"tasks": [{"template": TEMPLATE}]}),
        ("mindxdl.gitee.com/v1 AscendJob", {"replicaSpecs": {"Master": {"template": TEMPLATE}}}),
        ("kubeflow.org/v1 PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}}),
        ("example.com/v1 Anything", {"deep": [{"er": {"podTemplate": TEMPLATE}}]}),
    ],
)
def test_a_pod_template_is_found_in_any_kind(kind: str, spec: dict[str, Any]) -> None:
    version, name = kind.split()
    done = converted(yaml.safe_dump({"apiVersion": version, "kind": name, "metadata": {"name": "w"}, "spec": spec}))
    workload, template = yaml.safe_load_all(done.text)
    assert "nvidia.com/gpu" not in json.dumps(workload)
    assert '"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "w-gpu"}]' in json.dumps(workload)
    assert (template["kind"], template["metadata"]["name"]) == ("ResourceClaimTemplate", "w-gpu")


def test_equal_requests_of_a_workload_have_one_template_in_its_namespace() -> None:
    task = {"template": TEMPLATE}
    other = {"template": {"spec": pod_with({"nvidia.com/gpu": 2})["spec"]}}
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "ml"}, "spec": {"tasks": [task, other, task]}}
    documents = list(yaml.safe_load_all(converted(yaml.safe_dump(json.loads(json.dumps(job)))).text))
    assert [(it["metadata"]["name"], it["metadata"]["namespace"]) for it in documents] == [
        ("j", "ml"),
        ("j-gpu", "ml"),
        ("j-gpu-2", "ml"),
    ]
    names = [
        task["template"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
        for task in documents[0]["spec"]["tasks"]
    ]
    assert names == ["j-gpu", "j-gpu-2", "j-gpu"]


def test_a_claim_that_is_there_keeps_its_name() -> None:
    pod = pod_with(CARD)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    changed, _ = yaml.safe_load_all(converted(yaml.safe_dump(pod)).text)
    assert [entry["name"] for entry in changed["spec"]["resourceClaims"]] == ["gpu", "gpu-2"]
    assert changed["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu"}, {"name": "gpu-2"}]


@pytest.mark.parametrize(
    ("job", "version"),
    [({"schedulerName": "volcano"}, "mindxdl.gitee.com/v1"), ({}, "batch.volcano.sh/v1alpha1")],
)
def test_pods_that_get_their_scheduler_from_the_job_name_the_default_one(job: dict[str, Any], version: str) -> None:
    task = {"template": {"spec": pod_with({"volcano.sh/vgpu-number": 1})["spec"]}}
    text = yaml.safe_dump({"apiVersion": version, "kind": "Job", "metadata": {"name": "j"}, "spec": {**job, "t": task}})
    changed, _ = yaml.safe_load_all(converted(text).text)
    assert changed["spec"]["t"]["template"]["spec"]["schedulerName"] == "default-scheduler"


def test_documents_lists_and_empty_documents_keep_their_places() -> None:
    service = "apiVersion: v1\nkind: Service # stays\nmetadata: {name: s}\n"
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [pod_with(CARD), {"kind": "ConfigMap"}]})
    text = f"---\n---\n{service}---\n{listed}---\n{service}"
    done = converted(text)
    assert done.text.startswith(f"---\n---\n{service}---\n")
    assert done.text.endswith(f"---\n{service}")
    kinds = [document["kind"] for document in yaml.safe_load_all(done.text) if document]
    assert kinds == ["Service", "List", "ResourceClaimTemplate", "Service"]


@pytest.mark.parametrize("indent", [None, 2])
def test_json_stays_json(indent: int | None) -> None:
    text = "\n".join(json.dumps(pod_with(CARD, name=name), indent=indent) for name in "ab")
    done, decoder, found, at = converted(text), json.JSONDecoder(), [], 0
    while at < len(done.text.rstrip()):
        value, at = decoder.raw_decode(done.text, at + len(done.text[at:]) - len(done.text[at:].lstrip()))
        found.append(value)
    assert [value["kind"] for value in found] == ["Pod", "ResourceClaimTemplate"] * 2
    assert found[2]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == "b-gpu"


def test_line_ends_of_windows_stay() -> None:
    done = converted(POD.replace("\n", "\r\n"))
    assert done.text == converted(POD).text.replace("\n", "\r\n")


def test_a_file_without_a_last_line_end_is_converted() -> None:
    assert converted(POD.rstrip()).text == converted(POD).text


def test_the_first_field_of_a_container_may_be_its_resources() -> None:
    text = POD.replace(
        "      - name: main\n        image", "      - resources: {limits: {nvidia.com/gpu: 1}}\n        image"
    )
    text = text[: text.index("        resources:\n")] + "        name: main\n"
    changed, _ = yaml.safe_load_all(converted(text).text)
    assert changed["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}


# What cannot be converted


BOMB = "\n".join(f"a{i + 1}: &a{i + 1} [{','.join([f'*a{i}'] * 10)}]" for i in range(9)).replace("*a0", "x")
FAULTY = """\
kind: Pod
metadata:
  name: bad
  annotations: {volcano.sh/vgpu-mode: mps}
spec:
  containers:
  - name: a
    resources:
      limits:
        volcano.sh/vgpu-memory: 1Gi
        volcano.sh/vgpu-cores: 101
---
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w, namespace: x}
spec:
  templates:
  - container:
      resources:
        limits: {nvidia.com/gpu: 1}
---
kind: Pod
metadata: {name: good}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


def test_all_faults_are_said_at_once_with_file_line_and_field_and_nothing_is_written(
    lode: Callable[..., Answer], tmp_path: Path
) -> None:
    faulty, broken, good = (tmp_path / name for name in ("faulty.yaml", "broken.yaml", "good.yaml"))
    faulty.write_text(FAULTY)
    broken.write_text("a: [1\n")
    good.write_text(POD)
    answer = lode("-f", str(tmp_path), "-f", "nowhere.yaml", "--write")
    assert (answer.status, answer.out, good.read_text()) == (2, "", POD)
    limits = "spec.containers[0].resources.limits"
    for line in (
        "nowhere.yaml: cannot be read: No such file or directory; give a file, folder or -",
        f"{broken}:2: is not YAML: ",
        f"{faulty}:4: Pod bad: metadata.annotations[volcano.sh/vgpu-mode]: 'mps': ",
        f"{faulty}:10: Pod bad: {limits}[volcano.sh/vgpu-memory]: '1073741824': the unit is MiB",
        f"{faulty}:11: Pod bad: {limits}[volcano.sh/vgpu-cores]: '101': ",
        f"{faulty}:20: Workflow x/w: spec.templates[0].container.resources.limits[nvidia.com/gpu]: is in no pod",
    ):
        assert line in answer.err
    assert len(answer.err.splitlines()) == 6


def test_a_list_of_any_length_is_written_where_no_name_has_to_say_it() -> None:
    """With the names of templates on demand, the fault says which annotation is too long, and what to do."""
    uuids = ",".join(f"GPU-{number:08x}-207a-2038-9b45-23cac89cb67d" for number in range(20))
    text = yaml.safe_dump(pod_with({**CARD}, annotations={"nvidia.com/use-gpuuuid": uuids}))
    done = converted(text, ["hami"])
    assert not done.faults
    assert done.text.count("-207a-2038-9b45-23cac89cb67d") == 40
    (fault,) = converted(text, ["hami"], on_demand=True).faults
    assert fault.field == "metadata.annotations[nvidia.com/use-gpuuuid]"
    assert "shorten the list, or write a ResourceClaimTemplate" in fault.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (yaml.safe_dump(pod_with({"nvidia.com/gpu.new": 1})), "is no resource that is known here"),
        (yaml.safe_dump(pod_with({**CARD, "nvidia.com/gpu.new": 1})), "means nothing to nvidia"),
        (
            yaml.safe_dump(
                pod_with({"volcano.sh/vgpu-number": 1}, annotations={"volcano.sh/vgpu-mode": "mig"}),
            ),
            "mode mig needs an amount of memory",
        ),
        ("kind: Pod\nspec:\n  containers:\n  - resources: {limits: [nvidia.com/gpu]}\n", "cannot be read as a Pod"),
        ("kind: Pod\nspec:\n  containers:\n  - resources: &r {limits: {nvidia.com/gpu: 1}}\n  - resources: *r\n", "(*"),
        ("kind: X\na: &t {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}\nb: *t\n", "(*t)"),
        (
            "kind: Pod\nspec:\n  containers:\n  - resources: { # why\n      limits: {nvidia.com/gpu: 1}}\n",
            "has a comment between brackets",
        ),
        ("kind: Pod\nspec: {<<: {}}\n", "merge keys"),
        ("a: " + "[" * MAX_DEPTH, f"nested more than {MAX_DEPTH} levels"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", f"nested more than {MAX_DEPTH} levels"),
        ('{"a": ' + "[" * 2_000, f"nested more than {MAX_DEPTH} levels"),
        ('{"a": 1}\n{"b": ', "is not JSON"),
        (BOMB, "aliases expand to more than"),
    ],
)
def test_what_cannot_be_converted_is_said(text: str, says: str) -> None:
    done = converted(text)
    assert says in "\n".join(map(str, done.faults))
    assert done.text == text


def test_what_others_count_by_the_old_names_is_noted(lode: Callable[..., Answer]) -> None:
    quota = "kind: ResourceQuota\nmetadata: {name: q}\nspec:\n  hard:\n    requests.nvidia.com/gpu: 4\n"
    answer = lode("-f", "-", stdin=quota)
    assert (answer.status, answer.out) == (0, quota)
    assert answer.err.startswith(
        "note: standard input:5: ResourceQuota q: spec.hard[requests.nvidia.com/gpu]: counts nothing once pods have"
    )


def test_a_limit_range_that_demands_the_old_resource_is_noted() -> None:
    limits = {"limits": [{"type": "Container", "min": {"nvidia.com/gpu": 1}}]}
    text = yaml.safe_dump({"kind": "LimitRange", "metadata": {"name": "r"}, "spec": limits})
    (note,) = converted(text).notes
    assert (note.field, note.message.split(",")[0]) == (
        "spec.limits[0].min[nvidia.com/gpu]",
        "still demands it of pods",
    )


def test_containers_that_read_their_cards_in_an_annotation_are_noted() -> None:
    pod = pod_with({"huawei.com/Ascend910": 1})
    path = {"fieldRef": {"fieldPath": "metadata.annotations['huawei.com/Ascend910']"}}
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}, {"name": "CARDS", "valueFrom": path}]
    (note,) = converted(yaml.safe_dump(pod)).notes
    assert (note.field, "--on-demand" in note.message) == ("spec.containers[0].env[1]", True)
    assert converted(yaml.safe_dump(pod), on_demand=True).notes == []


def test_pods_that_name_their_node_are_left_alone() -> None:
    pod = pod_with(CARD)
    pod["spec"]["nodeName"] = "n"
    text = yaml.safe_dump(pod)
    done = converted(text)
    assert (done.text, done.faults) == (text, [])
    assert [(note.line, note.field) for note in done.notes] == [(12, "spec.nodeName")]


# The command


def test_check_says_which_files_would_change_and_changes_none(lode: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("a.yaml", "deep/b.yml", ".git/c.yaml"):
        (tmp_path / name).write_text(POD)
    (tmp_path / "d.yaml").write_text("kind: Service\n")
    answer = lode("-R", "-f", str(tmp_path), "--check")
    assert answer.status == 1
    assert answer.out == f"{tmp_path}/a.yaml: would change\n{tmp_path}/deep/b.yml: would change\n"
    assert (tmp_path / "a.yaml").read_text() == POD
    assert lode("-f", str(tmp_path / "d.yaml"), "--check") == Answer(0, "", "")


def test_write_changes_each_file_in_its_place_and_again_nothing(lode: Callable[..., Answer], tmp_path: Path) -> None:
    file, link = tmp_path / "a.yaml", tmp_path / "link.yaml"
    file.write_text(POD)
    file.chmod(0o640)
    link.symlink_to(file)
    assert lode("-f", str(link), "--write") == Answer(0, f"{link}: changed\n", "")
    assert file.read_text() == converted(POD).text
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o640)
    assert lode("-f", str(tmp_path), "--write") == Answer(0, "", "")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.yaml", "link.yaml"]


def test_standard_input_cannot_be_written(lode: Callable[..., Answer]) -> None:
    assert lode("-f", "-", "--write").status == 2


def test_several_files_are_one_stream_and_templates_of_one_folder_have_their_own_names(
    lode: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "b.yaml").write_text(POD.replace("kind: Pod", "kind: Pod # the other").rstrip())
    (tmp_path / "c.yaml").write_text("kind: ResourceClaimTemplate\nmetadata: {name: train-gpu}\n")
    documents = list(yaml.safe_load_all(lode("-f", str(tmp_path)).out))
    assert [it["metadata"]["name"] for it in documents] == [
        *("train", "train-gpu-2", "train", "train-gpu-3", "train-gpu"),
    ]


def test_only_the_systems_that_are_chosen_are_converted(lode: Callable[..., Answer]) -> None:
    text = yaml.safe_dump_all([pod_with(CARD), pod_with({"volcano.sh/vgpu-number": 1}, name="q")])
    answer = lode("-f", "-", "--source", "volcano", stdin=text)
    assert answer.status == 0
    assert "nvidia.com/gpu: 1" in answer.out
    assert "q-gpu" in answer.out
    assert (
        lode("-f", "-", "--source", "nvidia", stdin=yaml.safe_dump(pod_with({**CARD, "nvidia.com/gpumem": 1}))).status
        == 2
    )


def test_any_resource_can_be_given_a_class(lode: Callable[..., Answer]) -> None:
    text = yaml.safe_dump(pod_with({"example.com/fpga": 2}))
    answer = lode("-f", "-", "--plain", "example.com/fpga=fpga.example.com", stdin=text)
    _, template = yaml.safe_load_all(answer.out)
    assert template["metadata"]["name"] == "p-devices"
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "fpga.example.com", "count": 2}
    for wrong in ("example.com/fpga", "fpga=x", "a/b=C"):
        answer = lode("-f", "-", "--plain", wrong)
        assert (answer.status, answer.out) == (2, "")
        assert f"--plain {wrong}: must be RESOURCE=CLASS" in answer.err


def test_with_on_demand_the_controller_makes_the_templates(lode: Callable[..., Answer]) -> None:
    (pod,) = yaml.safe_load_all(lode("-f", "-", "--on-demand", stdin=POD).out)
    assert pod["spec"]["resourceClaims"] == [
        {"name": "lode-hami-0", "resourceClaimTemplateName": "lode-adopt.hami.n1-m3000"}
    ]


def test_another_driver_has_its_own_classes(lode: Callable[..., Answer]) -> None:
    assert "deviceClassName: gpu-share.gpu.example.com" in lode("-f", "-", "--driver", "gpu.example.com", stdin=POD).out


def test_what_is_printed_can_be_simulated() -> None:
    assert given(converted(POD).text, ["a100"])["train"].devices == {"main": ["A100 3000Mi"]}
