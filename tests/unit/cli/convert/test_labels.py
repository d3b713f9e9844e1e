"""What a pod wants of its node by labels of NVIDIA's GPU feature discovery is noted, or cannot be converted."""

from typing import Any

import pytest
import yaml

from tests.unit.cli.convert.converted import CARD, converted, pod_with


def test_labels_of_nodes_that_another_program_writes_are_noted() -> None:
    pod = pod_with(CARD)
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "H100", "zone": "a"}
    (note,) = converted(yaml.safe_dump(pod)).notes
    assert (note.field, "GPU feature discovery" in note.message) == ("spec.nodeSelector[nvidia.com/gpu.product]", True)


def with_affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """A pod whose nodes meet all expressions of one of the terms."""
    pod = pod_with(CARD)
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod


@pytest.mark.parametrize(
    ("operator", "noted"),
    [("In", True), ("Exists", True), ("Gt", True), ("Lt", True), ("NotIn", False), ("DoesNotExist", False)],
)
def test_labels_that_the_affinity_of_a_pod_requires_are_noted_with_their_place(operator: str, noted: bool) -> None:
    """Nodes without the label meet the other operators."""
    values = {} if "Exist" in operator else {"values": ["20000"]}
    zone = {"key": "zone", "operator": "Exists"}
    pod = with_affinity([zone], [zone, {"key": "nvidia.com/gpu.memory", "operator": operator, **values}])
    notes = converted(yaml.safe_dump(pod)).notes
    assert [note.field.partition("nodeSelectorTerms")[2] for note in notes] == ["[1].matchExpressions[1]"] * noted
    assert all("nvidia.com/gpu.memory is a label" in note.message for note in notes)


@pytest.mark.parametrize(
    ("product", "said"),
    [
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb", "ask for nvidia.com/mig-1g.24gb instead"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", "ask for nvidia.com/mig-1g.10gb.me instead"),
        ("NVIDIA-A100-SXM4-40GB-MIG-mixed", "ask for nvidia.com/mig-<profile> instead"),
        ("Tesla-T4-SHARED", "ask for a share"),
        ("NVIDIA-A30-MIG-1g.6gb-SHARED", "ask for a share"),
        ("NVIDIA-L4", ""),
    ],
)
def test_a_part_of_a_card_does_not_become_a_whole_one(product: str, said: str) -> None:
    """Only the product's label says that nvidia.com/gpu is a MIG device there, or a time slice."""
    selecting = pod_with(CARD)
    selecting["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": product}
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L4", product]}
    for pod in (selecting, with_affinity([expression])):
        faults = converted(yaml.safe_dump(pod)).faults
        assert len(faults) == bool(said)
        assert all(said in fault.message and product in fault.message for fault in faults)
    selecting["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.6gb": 1}}
    assert not converted(yaml.safe_dump(selecting)).faults
