"""Tables look as kubectl's."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cli.tables import age, claims_table, pods_table, table

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (26 * 3600, "26h"),
        (49 * 3600, "2d1h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(seconds: float, text: str) -> None:
    assert age(seconds) == text


def claim(name: str, *, deleting: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": "2026-11-21T11:59:48Z"}
    return {"metadata": {**metadata, **({"deletionTimestamp": "x"} if deleting else {})}, "status": status}


def test_a_claim_is_pending_then_allocated_then_reserved() -> None:
    held: dict[str, Any] = {"allocation": {}, "reservedFor": [{"uid": "1"}]}
    claims = [
        claim("c", **held),
        claim("a"),
        claim("b", allocation={}),
        claim("e", deleting=True),
        claim("d", deleting=True, **held),
    ]
    assert claims_table(claims, NOW).splitlines() == [
        "NAME   STATE                        AGE",
        "a      pending                      12s",
        "b      allocated                    12s",
        "c      allocated,reserved           12s",
        "d      deleted,allocated,reserved   12s",
        "e      deleted                      12s",
    ]


def test_a_gated_pod_says_so() -> None:
    def pod(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"containers": [{}, {}], **spec}}

    running = pod("b", nodeName="n1") | {"status": {"phase": "Running"}}
    assert pods_table([running, pod("a", schedulingGates=[{"name": "g"}])], NOW).splitlines() == [
        "NAME   READY   STATUS            AGE         NODE",
        "a      0/2     SchedulingGated   <unknown>   <none>",
        "b      2/2     Running           <unknown>   n1",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table(("NAME", "STATE"), []) == "NAME   STATE"
