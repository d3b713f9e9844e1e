"""A real API server accepts every example as written in a namespace of the level `restricted`, without a warning."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testclusters.controlplane import ControlPlane

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
KUEUE = "kueue"
"""The folder with kinds of Kueue's, which ``tests/contract/kueue`` uses."""
FILES = sorted(file for file in EXAMPLES.glob("*/*.yaml") if file.stem != "kustomization" and file.parent.name != KUEUE)
LEVEL = "pod-security.kubernetes.io"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        restricted = {f"{LEVEL}/{mode}": "restricted" for mode in ("enforce", "warn")}
        monitoring = restricted | {"resource.kubernetes.io/admin-access": "true"}
        for name, labels in (("default", restricted), ("lode-monitoring", monitoring)):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(namespace))
            plane.kubectl("wait", "--for=create", f"--namespace={name}", "serviceaccount/default")
        yield plane


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_accepted_without_a_warning(plane: ControlPlane, file: Path) -> None:
    served = json.loads(plane.kubectl("get", "--raw", "/apis/resource.k8s.io/v1").stdout)["resources"]
    arguments = ("apply", "--server-side", "--dry-run=server", "--warnings-as-errors", "-f", file)
    done = plane.kubectl(*arguments, check=False)
    if file.stem == "drain-card" and "devicetaintrules" not in {resource["name"] for resource in served}:
        # Kubernetes 1.36 has the kind in a beta version only, which is off by default.
        assert "DeviceTaintRule" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
