"""What admission costs a new pod, with the policies that adopt pods of other systems and without any policy.

    make bench-admission                              # about a minute
    make bench-admission ARGS="--pods 200"

A real API server without other components creates pods one after the other over one connection, as a trial
(``dryRun=All``): nothing is stored, so the times are those of admission and of the request itself. Each kind of pod is
created in rounds in turn, before any policy is there, with the policies of the default flavor, and with those of all
sources in addition. The processor time of the API server says what a request costs on a machine that is busy, too.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import urllib3

from benchmarks.allocation.table import lines
from benchmarks.processes import cpu_seconds
from charts.adoption import FOLDER
from driver.adoption import SOURCES
from driver.wire import Json
from testclusters.controlplane import ControlPlane

ROUND = 50
"""Pods of one kind that are created before those of the next."""
NONE, FLAVOR, EVERYTHING = "no policies", "controller-allocated", "all sources in addition"
LIMIT = 60.0
"""Seconds until policies are in force."""


@dataclass(frozen=True)
class Kind:
    """A kind of pod; ``namespace`` is called like the source that it has the label of."""

    name: str
    namespace: str
    pod: Json
    status: int = 201
    """The answer with all policies."""


@dataclass(slots=True)
class Requests:
    """Requests of one kind with one set of policies: seconds of each, and processor time of the API server for all."""

    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def cells(self) -> list[str]:
        """Median, 99th percentile and processor time of a request, in milliseconds."""
        ordered = sorted(self.seconds)
        parts = [ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (50, 99)]
        return [f"{value * 1000:.2f}" for value in (*parts, self.cpu / len(ordered))]


Measured = Mapping[str, Mapping[str, Requests]]
"""By set of policies, and by kind of pod."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000, help="pods of each kind (default: %(default)s)")
    pods = parser.parse_args(argv).pods
    measured = measure(pods)
    print(f"milliseconds of one request, {pods} pods of each kind; cpu: processor time of the API server\n")
    print(table(measured))
    return 0


def table(measured: Measured) -> str:
    """Median, 99th percentile and processor time by set of policies and kind of pod, in milliseconds."""
    header = ["pod", *(f"{name}: {part}" for name in measured for part in ("p50", "p99", "cpu"))]
    kinds = list(dict.fromkeys(kind for by_kind in measured.values() for kind in by_kind))
    rows = [[kind, *(cell for by_kind in measured.values() for cell in by_kind[kind].cells())] for kind in kinds]
    return lines(header, rows)


def kinds() -> list[Kind]:
    """The kinds of pods."""
    one = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    types = {"nvidia.com/use-gputype": "A100,V100", "nvidia.com/nouse-gpuuuid": "GPU-03f69c50-207a-2038-9b45-23cac89c"}
    return [
        Kind("without devices, other namespace", "other", _pod({"cpu": 1})),
        Kind("without devices, adopted namespace", "hami", _pod({"cpu": 1})),
        Kind("one container of HAMi", "hami", _pod(one, annotations=types)),
        Kind("one NPU", "ascend", _pod({"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 2048})),
        Kind("four containers of Volcano", "volcano", _pod(*[{"volcano.sh/vgpu-number": 1}] * 4)),
        Kind("refused", "hami", _pod({**one, "nvidia.com/gpu": 33}, annotations=types), 403),
    ]


def _pod(*limits: Mapping[str, int], annotations: Mapping[str, str] | None = None) -> Json:
    containers = [
        {"name": f"c{index}", "image": "none", "resources": {"limits": limit}} for index, limit in enumerate(limits)
    ]
    metadata = {"generateName": "pod-", "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def measure(pods: int) -> Measured:
    """Create so many pods of each kind with each set of policies."""
    found = {}
    with ControlPlane(components=()) as plane:
        server = Server(plane)
        for namespace in {kind.namespace for kind in kinds()}:
            labels = {f"lode.dev/adopt-{namespace}": "on"} if namespace in SOURCES else {}
            server.post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
        found[NONE] = _times(server, pods, all_policies=False)
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        server.await_status("lode.wrong-word", 403)
        found[FLAVOR] = _times(server, pods, all_policies=False)
        for source in SOURCES:
            plane.kubectl("apply", "-f", f"manifests/{FOLDER}/{source}/policies.yaml")
        for kind in kinds():
            server.await_answer(kind)
        found[EVERYTHING] = _times(server, pods, all_policies=True)
    return found


def _times(server: "Server", pods: int, *, all_policies: bool) -> dict[str, Requests]:
    found = {kind.name: Requests() for kind in kinds()}
    for _ in range(-(-pods // ROUND)):
        for kind in kinds():
            expected = kind.status if all_policies else 201
            before = server.cpu_seconds()
            for _ in range(min(ROUND, pods)):
                start = time.perf_counter()
                status = server.create(kind)
                found[kind.name].seconds.append(time.perf_counter() - start)
                if status != expected:
                    raise RuntimeError(f"{kind.name}: answer {status} in the place of {expected}")
            found[kind.name].cpu += server.cpu_seconds() - before
    return found


class Server:
    """The API server, over one connection, as the administrator."""

    def __init__(self, plane: ControlPlane):
        base = str(plane.kubeconfig().with_suffix(""))
        self._url = plane.server
        self._pid = plane.pid("kube-apiserver")
        self._pool = urllib3.PoolManager(
            ca_certs=str(plane.folder / "ca.crt"), cert_file=f"{base}.crt", key_file=f"{base}.key", retries=False
        )

    def cpu_seconds(self) -> float:
        """The processor time that the API server has used."""
        return cpu_seconds(self._pid)

    def post(self, path: str, body: Json) -> int:
        """The status of the answer."""
        headers = {"Content-Type": "application/json"}
        answer = self._pool.request("POST", self._url + path, body=json.dumps(body), headers=headers, timeout=30)
        return answer.status

    def create(self, kind: Kind) -> int:
        """Create a pod of the kind as a trial; the status of the answer."""
        return self.post(f"/api/v1/namespaces/{kind.namespace}/pods?dryRun=All", kind.pod)

    def await_status(self, template: str, status: int) -> None:
        """Wait until a pod that names the template gets the answer."""
        pod = _pod({"cpu": 1})
        pod["spec"]["resourceClaims"] = [{"name": "it", "resourceClaimTemplateName": template}]
        self.await_answer(Kind("names a template", "other", pod, status))

    def await_answer(self, kind: Kind) -> None:
        """Wait until a pod of the kind gets its answer, and what was adopted is the last policy's to say."""
        deadline = time.monotonic() + LIMIT
        while self.create(kind) != kind.status:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{kind.name}: not answered with {kind.status} within {LIMIT:.0f} s")
            time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
