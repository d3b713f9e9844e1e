"""What is read of an API server's profile and of its metrics."""

import pytest

from benchmarks.apiserver import REST, Spent, shares, sums
from benchmarks.throughput import table
from benchmarks.throughput.measure import Throughput
from benchmarks.throughput.table import CURRENT, Row

HANDLERS = "k8s.io/apiserver/pkg/endpoints/handlers"
TRACES = f"""File: kube-apiserver
Type: cpu
Duration: 5s, Total samples = 1.5s
-----------+-------------------------------------------------------
      30ms   runtime.mallocgc
             sigs.k8s.io/structured-merge-diff/v6/typed.Merge
             {HANDLERS}.PatchResource.func1
-----------+-------------------------------------------------------
     1.20s   syscall.Syscall
             k8s.io/apiserver/pkg/storage/etcd3.(*store).GuaranteedUpdate
             k8s.io/apiserver/pkg/storage/cacher.(*Cacher).GuaranteedUpdate
             {HANDLERS}.PatchResource.func1
-----------+-------------------------------------------------------
      60ms   encoding/json.Marshal
             {HANDLERS}.(*WatchServer).HandleHTTP
-----------+-------------------------------------------------------
      60ms   k8s.io/apiserver/pkg/storage/cacher.(*Cacher).dispatchEvent
-----------+-------------------------------------------------------
     150ms   main.unknown
"""
METRICS = """# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",scope="resource",subresource="status",verb="PATCH"} 7
apiserver_request_total{code="409",resource="pods",scope="resource",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="201",resource="pods",scope="resource",subresource="",verb="POST"} 4
other_total{resource="pods"} 9
"""


def test_a_sample_counts_once_for_the_first_part_that_it_belongs_to() -> None:
    expected = {"managed fields": 0.02, "storage": 0.8, "watch events in JSON": 0.04, "watch cache": 0.04, REST: 0.1}
    assert shares(TRACES) == pytest.approx(expected)


def test_metrics_are_summed_by_the_labels_that_are_asked_for() -> None:
    assert sums(METRICS, ("apiserver_request_total",), ("verb", "resource", "subresource")) == {
        "PATCH pods status": 8,
        "POST pods": 4,
    }


def test_the_table_tells_milliseconds_of_each_part_and_requests_a_pod() -> None:
    spent = Spent(parts={"storage": 0.5}, policies={"gate": 0.2}, requests={"POST pods": 100, "GET nodes": 4})
    cpu = {"kube-apiserver": 1.0, "controller": 0.5, "benchmark": 9.0}
    figures = Throughput(100, 100, 10.0, [1.0] * 100, cpu, [], spent=spent)
    rows = [line.rsplit(maxsplit=1) for line in table.together([Row("a card", 5, {CURRENT: figures})]).splitlines()]
    told = {name.strip(): value for name, value in rows}
    assert told["cpu ms of all programs"] == "15.0"
    assert told["storage"] == "5.00"
    assert told["ms in policy gate"] == "2.00"
    assert told["requests: POST pods"] == "1.00"
    assert "requests: GET nodes" not in told
