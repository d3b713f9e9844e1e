"""The commands that README tells a new user to install with are accepted by a real API server, as they are written."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testclusters.controlplane import ControlPlane
from testclusters.programs import helm_program

ROOT = Path(__file__).parents[2]
IMAGE = "registry.example/lode:0.1.0"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(components=()) as plane:
        yield plane


def blocks() -> list[str]:
    """The blocks of commands of the section Install."""
    page = (ROOT / "README.md").read_text()
    section = page.partition("## Install\n")[2].partition("\n## ")[0]
    return [re.sub("^ {3}", "", text, flags=re.MULTILINE) for text in re.findall(r"```\n(.*?)```", section, re.DOTALL)]


def images(plane: ControlPlane) -> set[str]:
    """Those of the installed programs."""
    form = "jsonpath={.items[*].spec.template.spec.containers[*].image}"
    return set(plane.kubectl("get", "deployments,daemonsets", "-A", "-o", form).stdout.split())


def test_helm(plane: ControlPlane) -> None:
    helm, *arguments = shlex.split(blocks()[0])
    assert helm == "helm"
    command = [str(helm_program()), *arguments, f"--kubeconfig={plane.kubeconfig(delayed=False)}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    assert images(plane) == {IMAGE}


def test_kustomize(plane: ControlPlane, tmp_path: Path) -> None:
    (content,) = re.findall(r"^cat >kustomization.yaml <<END\n(.*?)^ *END$", blocks()[1], re.DOTALL | re.MULTILINE)
    assert "kubectl apply -k ." in blocks()[1]
    overlay = yaml.safe_load(content)
    overlay["resources"] = [os.path.relpath(ROOT / path, tmp_path) for path in overlay["resources"]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    plane.kubectl("apply", "-k", tmp_path)
    assert images(plane) == {IMAGE}


def test_make_kind_and_the_commands_that_it_prints(plane: ControlPlane) -> None:
    """What the target applies is accepted as it applies it, and then what the printed commands and README apply."""
    (installing,) = re.findall(r"^\t\$\(KUBECTL\) (apply .*?);", (ROOT / "Makefile").read_text(), re.MULTILINE)
    pages = (ROOT / "manifests/kind/first-steps.txt").read_text() + (ROOT / "README.md").read_text()
    applied = re.findall(
        r"^ *kubectl (apply --(?:kustomize|filename) manifests/kind-examples\S*)$", pages, re.MULTILINE
    )
    assert len(applied) == 2
    for command in (installing, *applied):
        plane.kubectl(*shlex.split(command))
    assert images(plane) == {"lode-dra:dev"}
    found = plane.kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}").stdout
    assert set(found.split()) == {"lode-test/busybox:1"}
