"""``lode simulate`` says of pods that ask for resources of device plugins that nothing offers any."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.kube.api import Object
from tests.unit.cli.cluster import Answer, node, pod, simulation, slices, stored

Simulate = Callable[..., Answer]
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.lode.dev"},
    "spec": {"extendedResourceName": "nvidia.com/gpu"},
}


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    def call(*objects: Object, options: tuple[str, ...] = ()) -> Answer:
        return simulation(capsys, tmp_path, *objects, options=options)

    return call


def asking(name: str = "p", init: bool = False, **limits: Any) -> Object:
    """Keyword ``gpu`` is ``nvidia.com/gpu``, and ``npu`` is a resource of Huawei's device plugin."""
    names = {"gpu": "nvidia.com/gpu", "memory": "nvidia.com/gpumem", "npu": "huawei.com/Ascend910", "eni": "aws.io/eni"}
    made = pod(name)
    container = {"name": "c", "image": "i", "resources": {"limits": {names[key]: v for key, v in limits.items()}}}
    made["spec"]["initContainers" if init else "containers"] = [container]
    return made


def offering(**amounts: str) -> Object:
    made = node("n")
    made["status"]["allocatable"] |= {f"nvidia.com/{name}": amount for name, amount in amounts.items()}
    return made


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([asking(gpu=1)], id="nothing else is in the input"),
        pytest.param([asking(gpu="1", init=True)], id="an init container asks"),
        pytest.param([asking(npu=1)], id="a resource of another vendor"),
        pytest.param([asking(gpu=1, memory=3000), node("n")], id="no node has it"),
        pytest.param([asking(gpu=1), offering(gpu="0")], id="a node has none left"),
        pytest.param([asking(gpu=1), *slices("g", "t4x2")], id="nodes are assumed"),
    ],
)
def test_a_pod_waits_in_vain_where_nothing_offers_what_it_asks_for(simulated: Simulate, objects: list[Object]) -> None:
    answer = simulated(*objects)
    reason, message = answer.reason("p")
    assert (answer.status, answer.json["waiting"], reason) == (1, 1, "Impossible")
    assert message.startswith("nothing offers ")
    assert "lode convert" in message


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([asking(gpu=1), offering(gpu="8")], id="a device plugin offers it"),
        pytest.param([asking(gpu=1, memory=3000), offering(gpu="8")], id="it offers the only one that it publishes"),
        pytest.param([asking(gpu=1), CLASS], id="kube-scheduler makes claims for it"),
        pytest.param([asking(eni=1)], id="no resource of cards that is known"),
        pytest.param([stored(asking(gpu=1), phase="Succeeded")], id="the pod has ended"),
    ],
)
def test_nothing_is_said_of_pods_that_others_serve(simulated: Simulate, objects: list[Object]) -> None:
    answer = simulated(*objects)
    assert (answer.status, answer.json["pods"]) == (0, [])


def test_it_is_printed_with_the_reason(simulated: Simulate) -> None:
    answer = simulated(asking(gpu=1), options=("-o", "table"))
    assert "Pod default/p waits (Impossible):" in answer.out
    assert "nothing offers nvidia.com/gpu" in answer.out
