from typing import Any

import pytest

from driver.kube.objects import (
    claim_name,
    controller_of,
    generated_claim_prefix,
    is_deleting,
    is_terminal,
    object_key,
    pod_phase,
    unnameable_claim,
)

OWNER = {"kind": "Pod", "name": "p", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("pod", "entry", "prefix"),
    [
        ("p", "gpu", "p-gpu-"),
        ("p" * 27, "e" * 28, f"{'p' * 27}-{'e' * 28}-"),
        ("p" * 28, "e" * 28, f"{'p' * 27}-{'e' * 27}"),
        ("p" * 124, "gpu", f"{'p' * 54}-g"),
        ("p" * 253, "e", f"{'p' * 56}-"),
        ("pp", "e" * 63, f"p-{'e' * 53}"),
        ("p", "e" * 63, f"-{'e' * 54}"),
    ],
)
def test_a_name_that_is_too_long_is_cut_in_proportion(pod: str, entry: str, prefix: str) -> None:
    assert generated_claim_prefix(pod, entry) == prefix


@pytest.mark.parametrize(
    ("pod", "entry", "refused"),
    [
        ("p", "gpu", False),
        ("p", "e" * 54, False),
        ("p", "e" * 55, True),
        ("a.b", "e" * 63, True),
        ("a.b", "e" * 50, False),
        ("a.bc", "e" * 63, False),
    ],
)
def test_a_name_of_which_nothing_or_a_dot_is_left_is_refused(pod: str, entry: str, refused: bool) -> None:
    assert bool(unnameable_claim(pod, entry)) is refused


@pytest.mark.parametrize(
    ("owners", "found"),
    [
        (None, None),
        ([], None),
        ([OWNER], OWNER),
        ([{**OWNER, "controller": False}], None),
        ([{**OWNER, "kind": "Job"}], None),
        ([{**OWNER, "controller": False, "uid": "v"}, OWNER], OWNER),
    ],
)
def test_the_owner_that_counts_is_the_controller_of_the_kind(owners: Any, found: Any) -> None:
    assert controller_of({"metadata": {"name": "c", "ownerReferences": owners}}, "Pod") == found


@pytest.mark.parametrize(
    ("status", "phase", "terminal"),
    [
        (None, "Pending", False),
        ({}, "Pending", False),
        ({"phase": "Running"}, "Running", False),
        ({"phase": "Succeeded"}, "Succeeded", True),
        ({"phase": "Failed"}, "Failed", True),
    ],
)
def test_a_pod_has_ended_when_its_phase_says_so(status: Any, phase: str, terminal: bool) -> None:
    pod = {"metadata": {"name": "p"}, "status": status}
    assert (pod_phase(pod), is_terminal(pod)) == (phase, terminal)


def test_an_object_is_named_with_its_namespace_if_it_has_one() -> None:
    assert object_key({"metadata": {"name": "n"}}) == "n"
    assert object_key({"metadata": {"name": "n", "namespace": "ns"}}) == "ns/n"
    assert not is_deleting({"metadata": {"name": "n"}})
    assert is_deleting({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}})


def test_the_claim_of_an_entry_is_named_by_the_entry_or_by_the_status_of_the_pod() -> None:
    statuses = [{"name": "other", "resourceClaimName": "x"}, {"name": "gpu", "resourceClaimName": "made"}]
    pod = {"metadata": {"name": "p"}, "status": {"resourceClaimStatuses": statuses}}
    assert claim_name(pod, {"name": "gpu", "resourceClaimName": "named"}) == "named"
    assert claim_name(pod, {"name": "gpu"}) == "made"
    assert claim_name({**pod, "status": {"resourceClaimStatuses": [{"name": "gpu"}]}}, {"name": "gpu"}) == ""
    assert claim_name({**pod, "status": None}, {"name": "gpu"}) == ""
