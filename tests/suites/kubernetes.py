"""Kubernetes' own end-to-end tests, as one program that is built from its module."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testclusters.kind import KindCluster
from testclusters.programs import KUBERNETES_SUITES
from testclusters.progress import progress_step
from testclusters.suiteimages import suite_image
from tests.suites.outcomes import NotPlayed, Outcomes, of_ginkgo

_DEFAULT_GATES = "!(Feature: containsAny OffByDefault) && !Slow && !Flaky"
SUITES: Final[Mapping[str, str]] = {
    "devices": f"(DRA || Feature: containsAny DynamicResourceAllocation) && {_DEFAULT_GATES}",
    "scheduling": "Conformance && sig-scheduling",
    "nodes": "Conformance && sig-node && !DRA",
}
"""By the name of a suite, the labels of its tests, as ginkgo writes expressions of them."""
_NAMED_IN_MANIFESTS = ("registry.k8s.io/e2e-test-images/sample-device-plugin:1.8.0",)
"""Images that the program does not list."""


@dataclass(frozen=True)
class KubernetesTests:
    """The tests, with the images that could be built for their pods on the nodes of a cluster."""

    cluster: KindCluster
    folder: Path
    """Of the program ``e2e.test``, and of ``ginkgo``, which runs it."""
    processes: int

    def load_images(self) -> Sequence[str]:
        """Load the images of the tests' pods onto the nodes; returns those that cannot be built here, sorted."""
        listed = subprocess.run(
            [self.folder / "e2e.test", "--list-images"], capture_output=True, text=True, check=True
        ).stdout.split()
        archives = {reference: suite_image(reference) for reference in (*listed, *_NAMED_IN_MANIFESTS)}
        for reference, archive in archives.items():
            if archive:
                self.cluster.load_archive(reference, archive)
        return sorted(reference for reference, archive in archives.items() if archive is None)

    def play(self, suite: str, results: Path, *, focus: str = "") -> Outcomes:
        """Play one of `SUITES`; the report and what is printed are kept in the folder ``results``.

        Args:
            focus: a regular expression; only tests whose names match it are played.

        Raises:
            NotPlayed: no test was played.
        """
        results.mkdir(parents=True, exist_ok=True)
        report = results / f"{suite}.json"
        report.unlink(missing_ok=True)
        ginkgo: list[str | Path] = [
            self.folder / "ginkgo",
            f"--procs={self.processes}",
            f"--label-filter={SUITES[suite]}",
            *([f"--focus={focus}"] if focus else []),
            f"--json-report={report.name}",
            f"--output-dir={results}",
            "--timeout=6h",
            "--no-color",
            self.folder / "e2e.test",
        ]
        settings = ["--provider=skeleton", f"--kubeconfig={self.cluster.kubeconfig}", "--dump-logs-on-failure=false"]
        command = self.cluster.network_command(*ginkgo, "--", *settings)
        log = results / f"{suite}.log"
        with progress_step(f"playing {suite} (log: {log})", lambda: f"{_played(log)} tests"), log.open("w") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
        outcomes = of_ginkgo(json.loads(report.read_text())) if report.exists() else {}
        if not outcomes:
            raise NotPlayed(f"{suite}: no test was played; {log} says why")
        return outcomes


def _played(log: Path) -> int:
    """How many tests have ended, by the line of signs that ginkgo prints."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return text.count("•")


def provided(cluster: KindCluster, processes: int) -> KubernetesTests:
    """The tests for a cluster, which are built if they are not in the cache.

    Raises `ProgramMissing` if they cannot be built.
    """
    return KubernetesTests(cluster, KUBERNETES_SUITES.build(), processes)
