"""Amounts below zero are refused by the rules of Kubernetes 1.38. No server of another version is given one."""

import pytest

from memoryapi import V1_37, V1_38
from memoryapi.claim_rules import spec_faults, status_faults
from memoryapi.claims import default_spec
from memoryapi.versions import Version
from tests.contract.of_137 import alternative, asking, consuming

BELOW = {"memory": "-1"}


@pytest.mark.parametrize(("version", "refused"), [(V1_37, False), (V1_38, True)])
def test_amounts_below_zero_are_refused_since_138(version: Version, refused: bool) -> None:
    for spec, part in ((asking(**BELOW), "exactly"), (alternative(**BELOW), "firstAvailable[0]")):
        default_spec(spec)
        fields = [fault.field for fault in spec_faults("spec", spec, version)]
        assert fields == [f"spec.devices.requests[0].{part}.capacity.requests[memory]"] * refused
    spec = {"devices": {"requests": [{"name": "gpu"}]}}
    claim = {"metadata": {}, "spec": spec, "status": {"allocation": consuming(**BELOW)}}
    fields = [fault.field for fault in status_faults(claim, {**claim, "status": {}}, version)]
    assert fields == ["status.allocation.devices.results[0].consumedCapacity[memory]"] * refused


def test_what_is_zero_or_more_and_has_a_name_is_taken() -> None:
    spec = asking(memory="0", **{"gpu.example/cores": "100m"})
    default_spec(spec)
    assert [*spec_faults("spec", spec, V1_38)] == []
