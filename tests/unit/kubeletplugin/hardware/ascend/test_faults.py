"""A chip's faults become its health, with the operator's choice of severity."""

import pytest

from driver.kinds import Severity
from kubeletplugin.hardware.ascend.facts import ActiveFault
from kubeletplugin.hardware.ascend.faults import Severities, health_of, with_level, worst
from kubeletplugin.hardware.port import Health

MINOR = ActiveFault(0x80CB8002, 1, "recoverable")
MAJOR = ActiveFault(0x80E18402, 2, "HBM multi-bit error")
CRITICAL = ActiveFault(0x80E01801, 3)


@pytest.mark.parametrize(
    ("faults", "codes", "state", "code"),
    [
        ([], {}, "healthy", ""),
        ([MINOR], {}, "healthy", ""),
        ([MAJOR], {}, "degraded", "80E18402"),
        ([CRITICAL], {}, "fatal", "80E01801"),
        ([MINOR, MAJOR, CRITICAL], {}, "fatal", "80E01801"),
        ([CRITICAL], {"80E01801": "healthy"}, "healthy", ""),
        ([CRITICAL, MAJOR], {"80E01801": "healthy"}, "degraded", "80E18402"),
        ([MINOR], {"80CB8002": "fatal"}, "fatal", "80CB8002"),
        ([ActiveFault(0x1234, None)], {}, "degraded", "00001234"),
        ([ActiveFault(0x1234, 9)], {}, "degraded", "00001234"),
    ],
)
def test_the_worst_fault_is_the_health(
    faults: list[ActiveFault], codes: dict[str, Severity], state: str, code: str
) -> None:
    health = health_of(faults, Severities(codes=codes))
    assert (health.state, health.code) == (state, code)


def test_the_operator_chooses_what_a_severity_means() -> None:
    assert health_of([MAJOR], Severities({"major": "fatal"})).state == "fatal"
    assert health_of([CRITICAL], Severities({"critical": "degraded"})).state == "degraded"
    assert health_of([CRITICAL], Severities({"major": "healthy"})).state == "fatal"


def test_the_message_names_the_worst_fault_and_the_numbers_of_the_others() -> None:
    health = health_of([MINOR, MAJOR, CRITICAL], Severities())
    assert health.message == "fault 80E01801; also 80E18402"
    assert health_of([MAJOR], Severities()).message == "fault 80E18402: HBM multi-bit error"


def test_only_a_fatal_fault_asks_for_a_reset() -> None:
    assert health_of([CRITICAL], Severities()).recovery == "reset"
    assert health_of([MAJOR], Severities()).recovery == "none"


@pytest.mark.parametrize(
    ("codes", "level", "severities"),
    [((), 0, []), ((), 2, [2]), ((1, 2), 3, [3, 3]), ((1,), 0, []), ((1,), 9, [None])],
)
def test_a_driver_that_tells_no_severities_tells_the_level_of_the_worst(
    codes: tuple[int, ...], level: int, severities: list[int | None]
) -> None:
    assert [fault.severity for fault in with_level(codes, level)] == severities


def test_a_card_is_as_healthy_as_the_worst_of_its_chips() -> None:
    assert worst([Health(), Health("fatal"), Health("degraded")]).state == "fatal"
    assert worst([Health(), Health("unknown")]).state == "unknown"
    assert worst([Health(), Health()]) == Health()
