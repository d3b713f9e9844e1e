"""Each error of kube-scheduler that claims cause has a note with its remedy."""

import pytest

from cli.explain.pods import scheduler_notes
from driver.kube.api import Object

RUNNING = 'running "DynamicResources" filter plugin: '


def pod(message: str, status: str = "False", kind: str = "PodScheduled") -> Object:
    condition = {"type": kind, "status": status, "reason": "SchedulerError", "message": message}
    return {"metadata": {"name": "p"}, "status": {"conditions": [condition]}}


ERRORS = [
    (
        'claim team/c: capacity "memory" requested both as "memory" and as "gpu.example/memory"',
        "Keep one of them in capacity.requests",
    ),
    (
        "claim team/c: device gpu.example/n1/gpu-0: unsupported attribute value for gpu.example/numa",
        "Compare another attribute",
    ),
    (
        'claim team/other, device gpu.example/n1/gpu-0: consumed capacity "memory" must not be negative, got x',
        "Delete the pods of the claim",
    ),
    ('capacity "gpu.example/memory": capacity value is negative: request x', "Correct capacity.requests"),
]


@pytest.mark.parametrize(("message", "remedy"), ERRORS)
def test_an_error_has_a_remedy(message: str, remedy: str) -> None:
    (note,) = scheduler_notes(pod(RUNNING + message))
    assert note.startswith("kube-scheduler says: ")
    assert remedy in note


def test_other_messages_and_conditions_have_none() -> None:
    assert [*scheduler_notes(pod("0/1 nodes are available: cannot allocate all claims."))] == []
    message = ERRORS[0][0]
    assert [*scheduler_notes(pod(message, status="True"))] == []
    assert [*scheduler_notes(pod(message, kind="Ready"))] == []
    assert [*scheduler_notes({"metadata": {"name": "p"}})] == []


def test_a_long_message_makes_a_short_note() -> None:
    name = "x" * 10_000
    notes = [*scheduler_notes(pod(f"unsupported attribute value for {name}"))]
    assert len(notes) == 1
    assert len(notes[0]) < 700
