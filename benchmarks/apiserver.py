"""What an API server does: where its processor time goes, what each admission policy takes, and who asks for what.

Every sample of a CPU profile counts once, for the first part of `PARTS` that one of its functions belongs to. So the
time that storage takes within a patch is storage's, and what is left of the patch is "applying patches".
"""

import re
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from testclusters.controlplane import ControlPlane

PROFILE_SECONDS: Final = 5
REST: Final = "other"
_WATCHES: Final = r"endpoints/handlers\.(\(\*WatchServer\)|\(\*watchEncoder\)|serveWatchHandler)"
PARTS: Final[Mapping[str, Sequence[str]]] = {
    "garbage collection": (r"^runtime\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|bgscavenge|gcStart)",),
    "policies": (r"admission/plugin/policy/|google/cel-go",),
    "managed fields": (r"structured-merge-diff|util/managedfields",),
    "other admission": (r"apiserver/pkg/admission|kubernetes/plugin/pkg/admission",),
    "watch events in JSON": (_WATCHES, r"serializer/json|encoding/json"),
    "watch events in protobuf": (_WATCHES, r"serializer/protobuf"),
    "watch events, sending": (_WATCHES,),
    "storage": (r"storage/etcd3\.|etcd/client/v3|google\.golang\.org/grpc",),
    "applying patches": (r"endpoints/handlers\.(PatchResource|\(\*patcher\)|patchResource)",),
    "updates": (r"endpoints/handlers\.UpdateResource",),
    "creates": (r"endpoints/handlers\.(createHandler|CreateResource|CreateNamedResource)",),
    "deletes": (r"endpoints/handlers\.Delete",),
    "reads": (r"endpoints/handlers\.(GetResource|getResourceHandler|ListResource)",),
    "watch cache": (r"storage/cacher\.",),
    "HTTP, TLS, who may do it": (r"apiserver/pkg/(server|endpoints)/|net/http|http2|crypto/",),
    "Go's scheduler": (r"^runtime\.",),
}
"""What the functions of each part are called, with their packages: every pattern has one that matches. The first part
counts. Lode and benchmarks read JSON, Kubernetes' programs protobuf."""
_PATTERNS: Final = {part: [re.compile(it) for it in patterns] for part, patterns in PARTS.items()}
_POLICY_SECONDS: Final = (
    tuple(f"apiserver_{kind}_admission_policy_check_duration_seconds_sum" for kind in ("validating", "mutating")),
    ("policy",),
)
_REQUESTS: Final = ("apiserver_request_total",), ("verb", "resource", "subresource")
_WATCH_EVENTS: Final = ("apiserver_watch_events_total",), ("resource",)
_TRACE: Final = re.compile(r"^\s*([\d.]+)(ms|s|mins)\s+(\S.*)$")
_UNITS: Final = {"ms": 1e-3, "s": 1.0, "mins": 60.0}


@dataclass(slots=True)
class Spent:
    """What an API server has done for some time."""

    parts: Mapping[str, float] = field(default_factory=dict)
    """The share of its processor time by part, from 0 to 1, in a profile of some seconds."""
    policies: Mapping[str, float] = field(default_factory=dict)
    """Seconds in each admission policy, in all the time."""
    requests: Mapping[str, float] = field(default_factory=dict)
    """Number of requests by verb, resource and subresource, in all the time."""
    events: Mapping[str, float] = field(default_factory=dict)
    """Number of events that were sent by watches, by resource, in all the time."""


@contextmanager
def spending(plane: ControlPlane) -> Iterator[Callable[[], Spent]]:
    """Look at an API server from now on; what is given returns what was seen, once the profile is complete."""
    before, traces = _counted(plane), list[str]()
    profiling = threading.Thread(target=lambda: traces.append(_profile(plane)), daemon=True)
    profiling.start()

    def seen() -> Spent:
        now = _counted(plane)
        profiling.join()
        more = [
            {name: count - earlier.get(name, 0.0) for name, count in later.items() if count > earlier.get(name, 0.0)}
            for earlier, later in zip(before, now, strict=True)
        ]
        return Spent(shares(traces[0]) if traces else {}, *more)

    yield seen


def shares(traces: str) -> Mapping[str, float]:
    """The part of the time that each of `PARTS` has, and the `REST`, of what ``go tool pprof -traces`` prints."""
    seconds: dict[str, float] = defaultdict(float)
    for took, functions in _samples(traces):
        seconds[_part(functions)] += took
    total = sum(seconds.values())
    return {part: took / total for part, took in seconds.items()}


def _samples(traces: str) -> Iterator[tuple[float, Sequence[str]]]:
    """Seconds and the functions of each sample, the innermost first."""
    for block in re.split(r"^-+\+-+$", traces, flags=re.MULTILINE)[1:]:
        first, *callers = block.strip("\n").splitlines() or [""]
        if found := _TRACE.match(first):
            yield float(found[1]) * _UNITS[found[2]], [found[3], *(it.strip() for it in callers)]


def _part(functions: Sequence[str]) -> str:
    for part, patterns in _PATTERNS.items():
        if all(any(map(pattern.search, functions)) for pattern in patterns):
            return part
    return REST


def _profile(plane: ControlPlane) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cpu.pb.gz")
        file.write_bytes(plane.get(f"/debug/pprof/profile?seconds={PROFILE_SECONDS}", PROFILE_SECONDS + 30))
        argv = ["go", "tool", "pprof", "-traces", str(file)]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def _counted(plane: ControlPlane) -> Sequence[Mapping[str, float]]:
    """Seconds of policies, requests and events of watches until now."""
    metrics = plane.get("/metrics").decode()
    return [sums(metrics, *which) for which in (_POLICY_SECONDS, _REQUESTS, _WATCH_EVENTS)]


def sums(metrics: str, names: tuple[str, ...], labels: Sequence[str]) -> Mapping[str, float]:
    """The values of these metrics, summed by some of their labels, of which the key has the values that are not empty.

    Of thousands of lines only those that begin with a name are parsed.
    """
    found: dict[str, float] = defaultdict(float)
    lines = [line for line in metrics.splitlines() if line.startswith(names)]
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        for sample in family.samples:
            found[" ".join(filter(None, (sample.labels.get(label) for label in labels)))] += sample.value
    return found
