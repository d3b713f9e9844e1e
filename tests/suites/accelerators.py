"""The tests of Kubernetes' AI conformance, from a checkout of kubernetes-sigs/ai-conformance.

They are no published module, so that they are played where a variable names a checkout, and are left out elsewhere.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from testclusters.kind import KindCluster
from testclusters.progress import progress_step
from testclusters.suiteimages import shell_image
from tests.suites.outcomes import NotPlayed, Outcomes, of_go_test

VARIABLE: Final = "LODE_AI_CONFORMANCE"
"""Names the folder of the checkout."""
_IMAGE: Final = "ubuntu:22.04"
"""What the tests' pods have; they need a shell and ``ls`` of it."""


def checkout() -> Path | None:
    """The folder that the variable names; None if it names none.

    Raises:
        NotPlayed: it names no checkout.
    """
    named = os.environ.get(VARIABLE)
    if named and not Path(named, "go.mod").is_file():
        raise NotPlayed(f"{VARIABLE}={named} is no checkout of kubernetes-sigs/ai-conformance: it has no go.mod")
    return Path(named) if named else None


def play(cluster: KindCluster, source: Path, results: Path) -> Outcomes:
    """Play the tests of a checkout on cards of the class ``gpu.nvidia.com``; what they print is kept in ``results``.

    Raises:
        NotPlayed: they cannot be compiled, or none was played.
    """
    results.mkdir(parents=True, exist_ok=True)
    cluster.load_archive(_IMAGE, shell_image(_IMAGE))
    program, log = results / "accelerators.test", results / "accelerators.log"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    with progress_step(f"compiling the tests of {source}"):
        compiled = subprocess.run(
            ["go", "test", "-c", "-o", program, "./test"],
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if compiled.returncode:
        raise NotPlayed(f"{source}: the tests cannot be compiled:\n{compiled.stderr[-2000:]}")
    tests: list[str | Path] = [program, "-test.v=test2json", f"-kubeconfig={cluster.kubeconfig}"]
    command = cluster.network_command("go", "tool", "test2json", "-t", *tests)
    with progress_step(f"playing accelerators (log: {log})"), log.open("w") as output:
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
    if not (outcomes := of_go_test(log.read_text().splitlines())):
        raise NotPlayed(f"accelerators: no test was played; {log} says why")
    return outcomes
