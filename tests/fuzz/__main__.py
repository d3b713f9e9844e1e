"""Make inputs for the targets, guided by coverage: ``make fuzz`` or ``python -m tests.fuzz [TARGET ...]``.

Each target runs in a process of its own, as many at once as there are processors. An input that breaks a promise is
written to a file, and named with the command that replays it. Exit status 0 if no promise was broken, 1 otherwise.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"
"""Inputs that broke a promise once, by target; ``tests/unit/fuzz`` replays them."""
SECONDS_OF_ONE = 20
MEBIBYTES = 2048
"""The most time and memory that one input may take."""


class Outcome(NamedTuple):
    """What became of one target.

    Attributes:
        kept: whether it kept its promise.
        lines: to print.
    """

    kept: bool
    lines: list[str]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all if none is named: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="of processor time for all targets together")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs; the same ones are made each time")
    parser.add_argument("--corpus", type=Path, help="a folder that keeps interesting inputs for the next run")
    parser.add_argument("--replay", type=Path, help="run one input of the one target named, without atheris")
    options = parser.parse_args()
    targets = options.targets or list(TARGETS)
    if unknown := sorted(set(targets) - set(TARGETS)):
        parser.error(f"no such target: {', '.join(unknown)}; use {', '.join(TARGETS)}")
    if options.replay:
        TARGETS[targets[0]].run(options.replay.read_bytes())
        return 0
    each = max(1, options.seconds // len(targets))
    with tempfile.TemporaryDirectory(prefix="lode-fuzz-") as folder:
        corpus = options.corpus or Path(folder)
        broken = []
        fuzz = partial(_fuzz, seconds=each, seed=options.seed, corpora=corpus)
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            for name, outcome in zip(targets, workers.map(fuzz, targets), strict=True):
                print(f"==> {name}, {each} s", *outcome.lines, sep="\n", flush=True)
                broken += [] if outcome.kept else [name]
    print(f"{len(targets) - len(broken)} targets keep their promise, {len(broken)} do not: {', '.join(broken) or '-'}")
    return 1 if broken else 0


def _fuzz(name: str, seconds: int, seed: int, corpora: Path) -> Outcome:
    """Run one target for this long, in a process of its own."""
    corpus = corpora / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, known in enumerate(TARGETS[name].seeds):
        (corpus / f"seed-{number:03}").write_bytes(known)
    found = FOUND / name
    folders = [str(corpus), *([str(found)] if found.is_dir() else [])]
    bounds = [f"-seed={seed}", f"-max_total_time={seconds}", f"-timeout={SECONDS_OF_ONE}", f"-rss_limit_mb={MEBIBYTES}"]
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.guided",
        name,
        *bounds,
        f"-artifact_prefix={corpora}/{name}-",
        *folders,
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    last = [line for line in done.stderr.splitlines() if line.startswith(("#", "Done"))]
    lines = ["    " + (last[-1] if last else "no input was run")]
    if done.returncode:
        lines += [done.stdout.partition("=== Uncaught")[2][:4000], done.stderr[-1000:]]
        for file in sorted(corpora.glob(f"{name}-*")):
            kept = found / file.name.removeprefix(f"{name}-")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(file.read_bytes())
            lines.append(f"replay it: python -m tests.fuzz {name} --replay {kept.relative_to(Path.cwd())}")
    return Outcome(done.returncode == 0, lines)


if __name__ == "__main__":
    sys.exit(main())
