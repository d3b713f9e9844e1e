"""``make histories SEEDS=0-9999``: plays the histories of these seeds in parallel. Exit status 1 if one fails."""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial

from tests.system import naming, preempting, scaling, vendor_history
from tests.system.history import HistoryFailed, play

CHUNK = 8
HANGS_AFTER_SECONDS = 900
"""A history takes about two seconds of the processor, and minutes on a machine that has much else to do. One that waits
for a lock of its own waits for ever."""


class _HangsError(BaseException):
    """Not an ``Exception``: no program takes it for an error of its own."""


@contextmanager
def _bounded(seconds: int) -> Iterator[None]:
    def hangs(_signal: int, _frame: object) -> None:
        raise _HangsError

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


KINDS: Mapping[str, Callable[[int], None]] = {
    "plain": play,
    "gangs": partial(play, with_gangs=True),
    "preemption": preempting.play,
    "scaling": scaling.play,
    "hardware": vendor_history.play,
    "naming": naming.play,
}
"""What plays a history, by the kind of histories; each seed is another one in each kind."""


def failure(seed: int, *, kind: str = "plain") -> str:
    """Why the history of ``seed`` fails; "" if it does not."""
    try:
        with _bounded(HANGS_AFTER_SECONDS):
            KINDS[kind](seed)
    except HistoryFailed as failed:
        return str(failed)
    except _HangsError:
        return f"history {seed} hangs:\n{traceback.format_exc()}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument("seeds", help="first and last seed, such as 0-9999")
    parser.add_argument("--kind", choices=KINDS, default="plain", help="each seed is another history in each kind")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    failed = []
    with ProcessPoolExecutor(options.workers) as pool:
        for seed, problem in zip(
            seeds, pool.map(partial(failure, kind=options.kind), seeds, chunksize=CHUNK), strict=True
        ):
            if problem:
                failed.append(seed)
                print(f"{problem}\n", flush=True)
    print(f"{len(seeds)} histories, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
