"""How adoption is switched on, by docs/adoption.md: components, the chart, all namespaces, and what comes beside it."""

import os
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testclusters.controlplane import ControlPlane
from testclusters.programs import helm_program, kubectl_program
from tests.adoption_cases import claims_of, resources_of
from tests.contract.adopting import adopts, create, gated, in_force
from tests.contract.identity import Identity, Object, eventually

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "adoption.md").read_text(), re.DOTALL)
SETUPS = [block for block in BLOCKS if "kind: Kustomization" in block]
SAMPLES: list[Object] = [yaml.safe_load(block) for block in BLOCKS if "containers:" in block]


def built(setup: str, folder: Path) -> list[Object]:
    """What kustomize builds of a setup of the page, which is in a folder beside those that it names."""
    text = setup.replace("../", f"{os.path.relpath(ROOT / 'manifests', folder)}/")
    (folder / "kustomization.yaml").write_text(text)
    command = [str(kubectl_program()), "kustomize", str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return [obj for obj in yaml.safe_load_all(printed) if obj]


def with_everywhere(setup: str) -> str:
    return setup.replace("../adopt/volcano]", "../adopt/volcano, ../adopt/everywhere]")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identity]:
    """The administrator of a cluster where pods of HAMi and Volcano are adopted everywhere."""
    objects = built(with_everywhere(SETUPS[0]), tmp_path_factory.mktemp("setup"))
    with ControlPlane(components=()) as plane:
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
        admin = Identity.admin(plane)
        for source in ("hami", "volcano"):
            eventually(f"pods of {source} are adopted", partial(in_force, admin, source, namespace="default"))
        yield admin


def new_namespace(admin: Identity, name: str, **labels: str) -> str:
    labels = {f"lode.dev/adopt-{source}": value for source, value in labels.items()}
    admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).must()
    return name


def sample(index: int = 0) -> Object:
    return {**SAMPLES[index], "apiVersion": "v1", "kind": "Pod"}


def test_everywhere_leaves_out_the_system_and_namespaces_that_say_so(admin: Identity) -> None:
    plain, off = new_namespace(admin, "plain"), new_namespace(admin, "off", hami="off")
    eventually("pods are adopted", lambda: adopts(admin, plain, sample()))
    for namespace in (off, "kube-system", "kube-public"):
        assert not claims_of(create(admin, namespace, sample()).must())


def test_a_namespace_of_another_source_of_the_same_resource_is_left_out(admin: Identity) -> None:
    """Its own policies are not there: whatever they would leave is refused."""
    other = new_namespace(admin, "other", nvidia="on")
    told = "labels lode.dev/adopt-hami and lode.dev/adopt-nvidia"
    eventually("it counts", lambda: told in create(admin, other, sample()).message)


def test_the_example_of_the_page_becomes_what_the_page_says(admin: Identity) -> None:
    namespace = new_namespace(admin, "example")
    eventually("pods are adopted", lambda: adopts(admin, namespace, sample()))
    admitted = create(admin, namespace, sample()).must()
    assert _within(sample(1), admitted)
    assert gated(admitted)


def _within(expected: Any, actual: Any) -> bool:
    if isinstance(expected, dict):
        return all(key in actual and _within(value, actual[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(_within, expected, actual))
    return bool(expected == actual)


def test_defaults_of_a_limit_range_are_adopted_too(admin: Identity) -> None:
    """They are added before the policies."""
    namespace = new_namespace(admin, "defaults")
    limit_range(admin, namespace, default={"cpu": "1", "nvidia.com/gpumem": "2000"})
    pod = sample()
    del pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"]

    def adopted() -> Object | None:
        answer = create(admin, namespace, pod)
        return answer.body if answer.ok and "m2000" in str(claims_of(answer.body)) else None

    admitted = eventually("the defaults count", adopted, 60)
    assert claims_of(admitted) == {"lode-hami-0": "lode-adopt.hami.n2-m2000.t-a100-cv100"}
    assert resources_of(admitted) == {"cpu"}


def test_a_limit_of_a_resource_that_is_taken_out_refuses_adopted_pods(admin: Identity) -> None:
    """It is checked after the policies, and wants the resource to be there."""
    namespace = new_namespace(admin, "limited")
    limit_range(admin, namespace, max={"nvidia.com/gpu": "8"})
    told = "maximum nvidia.com/gpu usage per Container is 8"
    eventually("it counts", lambda: told in create(admin, namespace, sample()).message)


def limit_range(admin: Identity, namespace: str, **limits: dict[str, str]) -> None:
    spec = {"limits": [{"type": "Container", **limits}]}
    path = f"/api/v1/namespaces/{namespace}/limitranges"
    admin.request("POST", path, {"metadata": {"name": "it"}, "spec": spec}).must()


def test_the_classes_of_other_names_are_those_of_the_patch_and_of_the_chart(tmp_path: Path) -> None:
    patched = built(SETUPS[1], tmp_path)
    values = [
        "--set=adopt.plain.amd\\.com/gpu=gpu.example.com",
        "--set=adopt.plain.example\\.com/fpga=fpga.example.com",
    ]
    command = [str(helm_program()), "template", "lode", str(ROOT / "charts" / "lode"), "--kube-version=1.37.0", *values]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    rendered = [obj for obj in yaml.safe_load_all(printed) if obj]
    expected = ["amd.com/gpu=gpu.example.com", "example.com/fpga=fpga.example.com"]
    for objects in (patched, rendered):
        policies = [obj for obj in objects if "adopt" in obj["metadata"]["name"] and "variables" in obj.get("spec", {})]
        first = [policy["spec"]["variables"][0] for policy in policies]
        assert [(it["name"], yaml.safe_load(it["expression"])) for it in first] == [("classes", expected)] * 2
