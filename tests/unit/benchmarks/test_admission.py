"""The pods of the benchmark of admission are what it says of them, and the table has all figures."""

import pytest

from benchmarks.admission import Kind, Requests, kinds, table
from driver.adoption import SOURCES, adopt


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind.namespace in SOURCES], ids=lambda kind: kind.name)
def test_a_pod_of_an_adopted_namespace_is_adopted_or_refused(kind: Kind) -> None:
    adopted = adopt(kind.pod, SOURCES[kind.namespace])
    assert bool(adopted.refused) == (kind.status == 403)
    assert bool(adopted.templates) == (kind.status == 201 and "without" not in kind.name)


def test_the_table_has_median_99th_percentile_and_processor_time_in_milliseconds() -> None:
    measured = {
        "before": {"a": Requests([number / 1000 for number in range(100)], cpu=0.2)},
        "after": {"a": Requests([0.5], cpu=0.01)},
    }
    first, second = (line.split() for line in table(measured).splitlines())
    assert first == "pod before: p50 before: p99 before: cpu after: p50 after: p99 after: cpu".split()
    assert second == ["a", "50.00", "99.00", "2.00", "500.00", "500.00", "10.00"]
