"""Make inputs for the targets, guided by coverage: ``make fuzz`` or ``python -m tests.fuzz [TARGET ...]``.

Each target runs in a process of its own, one after the other. An input that breaks a promise is written to a file, and
named with the command that replays it. Exit status 0 if no promise was broken, 1 otherwise.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"
"""Inputs that broke a promise once, by target; ``tests/unit/fuzz`` replays them."""
SECONDS_OF_ONE = 20
MEBIBYTES = 2048
"""The most time and memory that one input may take."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all if none is named: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
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
        broken = [name for name in targets if not _fuzz(name, each, options.seed, corpus / name, corpus)]
    print(f"{len(targets) - len(broken)} targets keep their promise, {len(broken)} do not: {', '.join(broken) or '-'}")
    return 1 if broken else 0


def _fuzz(name: str, seconds: int, seed: int, corpus: Path, crashes: Path) -> bool:
    """Whether the target kept its promise for this long."""
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
        f"-artifact_prefix={crashes}/{name}-",
        *folders,
    ]
    print(f"==> {name}, {seconds} s", flush=True)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    last = [line for line in done.stderr.splitlines() if line.startswith(("#", "Done"))]
    print("    " + (last[-1] if last else "no input was run"), flush=True)
    if done.returncode:
        print(done.stdout.partition("=== Uncaught")[2][:4000], done.stderr[-1000:], sep="\n", flush=True)
        for file in sorted(crashes.glob(f"{name}-*")):
            kept = found / file.name.removeprefix(f"{name}-")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(file.read_bytes())
            print(f"replay it: python -m tests.fuzz {name} --replay {kept.relative_to(Path.cwd())}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
