"""From pod to Running on kind: Lode in both flavors and the example driver, with memory, start and import times.

    make bench                                    # creates the cluster, runs this, removes the cluster
    python -m benchmarks.cluster --pods 100 --burst 24

All three run one after the other on the same cluster of three workers with eight cards each, with the same pods: one
claim from a template for one device of a class. Times are measured by a client that creates the pod and watches it.
"""

import argparse
import os
import statistics
import subprocess
import sys

from benchmarks import pods
from benchmarks.contenders import CONTENDERS, NAMESPACE, Contender
from driver.kube.api import Api
from driver.kube.client import KubeClient
from testclusters.kind import KindCluster

PROFILE_LABEL = "lode.dev/simulated-profile"


def main() -> int:
    """Run the comparison and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--pods", type=int, default=100, help="number of pods created one after another (%(default)s)")
    parser.add_argument("--burst", type=int, default=24, help="number of pods created at once; at most 24 fit")
    parser.add_argument("--only", default="", help="run only the contenders whose name contains this text")
    arguments = parser.parse_args()
    cluster = KindCluster.attach()
    enter_network(cluster)
    api = KubeClient.from_environment(str(cluster.kubeconfig))
    workers = sorted(cluster.workers)
    labels = {node: _label(cluster, node) for node in workers}
    try:
        for node in workers:
            cluster.kubectl("label", "node", node, "--overwrite", f"{PROFILE_LABEL}=h100x8")
        rows = [
            measure(cluster, api, contender, arguments.pods, arguments.burst)
            for contender in CONTENDERS
            if arguments.only in contender.name
        ]
    finally:
        for node, label in labels.items():
            cluster.kubectl("label", "node", node, "--overwrite", f"{PROFILE_LABEL}={label}")
    print_table(
        rows, ["", "pods", "p50 s", "p95 s", "burst", "p50 s", "p95 s", "all s", "resident memory, MiB", "ready s"]
    )
    print()
    print_table(import_times(), ["import", "median of 5, s"])
    return 0


def enter_network(cluster: KindCluster) -> None:
    """Restart this program in the cluster's network, where its API server is reachable."""
    command = cluster.network_command(sys.executable, "-m", "benchmarks.cluster", *sys.argv[1:])
    if command[0] != sys.executable and not os.environ.get("BENCH_INSIDE"):
        os.execvpe(command[0], command, {**os.environ, "BENCH_INSIDE": "1"})


def _label(cluster: KindCluster, node: str) -> str:
    path = "jsonpath={.metadata.labels." + PROFILE_LABEL.replace(".", "\\.") + "}"
    return cluster.kubectl("get", "node", node, "-o", path).stdout.strip()


def measure(cluster: KindCluster, api: Api, contender: Contender, count: int, burst_size: int) -> list[str]:
    """Install a contender, run both workloads, measure memory, remove it; returns the row of the table."""
    print(f"{contender.name}: installing", flush=True)
    cluster.kubectl("create", "namespace", NAMESPACE)
    contender.install(cluster)
    try:
        pods.prepare(api, NAMESPACE, contender.device_class)
        pods.one_after_another(api, NAMESPACE, 3)
        print(f"{contender.name}: {count} pods one after another", flush=True)
        singles = pods.one_after_another(api, NAMESPACE, count)
        print(f"{contender.name}: {burst_size} pods at once", flush=True)
        bursts = pods.burst(api, NAMESPACE, burst_size)
        memory = ", ".join(f"{label} {_resident(cluster, match):.0f}" for label, match in contender.programs)
        ready = _start_to_ready(cluster) if "lode" in contender.name else "-"
    finally:
        cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=100s", timeout=120)
        contender.remove(cluster)
    return [
        contender.name,
        str(count),
        *_percentiles(singles),
        str(burst_size),
        *_percentiles(bursts),
        f"{max(bursts):.2f}",
        memory,
        ready,
    ]


def _percentiles(seconds: list[float]) -> list[str]:
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return [f"{statistics.median(seconds):.2f}", f"{cuts[18]:.2f}"]


def _resident(cluster: KindCluster, match: str) -> float:
    """The largest resident set, in MiB, of the processes on all nodes whose command line contains ``match``."""
    script = (
        f"for p in $(pgrep -f '{match}'); do grep -q '{match}' /proc/$p/cmdline 2>/dev/null || "
        f"tr '\\0' ' ' < /proc/$p/cmdline | grep -q '{match}' && grep VmRSS /proc/$p/status; done"
    )
    mebibytes = [0.0]
    for node in cluster.nodes:
        lines = cluster.node_exec(node, "sh", "-c", script, check=False).stdout.splitlines()
        mebibytes += [int(line.split()[1]) / 1024 for line in lines]
    return max(mebibytes)


def _start_to_ready(cluster: KindCluster) -> str:
    """The median of ``lode_start_to_ready_seconds`` of each of our programs, from /metrics."""
    ours = ("--all-namespaces", "--selector", "app.kubernetes.io/part-of=lode")
    form = "jsonpath={range .items[*]}{.metadata.namespace}/pods/{.metadata.name}{' '}{end}"
    seconds: dict[str, list[float]] = {}
    for name in cluster.kubectl("get", "pods", *ours, "-o", form).stdout.split():
        path = f"/api/v1/namespaces/{name}:8080/proxy/metrics"
        text = cluster.kubectl("get", "--raw", path, check=False).stdout
        for line in text.splitlines():
            if line.startswith("lode_start_to_ready_seconds "):
                program = "controller" if "controller" in name else "kubeletplugin"
                seconds.setdefault(program, []).append(float(line.split()[1]))
    return ", ".join(f"{program} {statistics.median(values):.2f}" for program, values in sorted(seconds.items()))


def import_times() -> list[list[str]]:
    """Seconds to import each program in a new interpreter, without the start of the interpreter."""
    rows = []
    for module in ("controller.__main__", "kubeletplugin.__main__", "cli.__main__"):
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        runs = [
            float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
            for _ in range(5)
        ]
        rows.append([module, f"{statistics.median(runs):.2f}"])
    return rows


def print_table(rows: list[list[str]], header: list[str]) -> None:
    """Print rows in columns."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
