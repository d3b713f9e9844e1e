"""Which of the changes written by hand the seeded histories notice by themselves: ``make mutants ARGS=--alone``.

The seed of a history that notices a change is recorded in ``written.yaml``, so that this one is played first.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.mutants.trial import Change, Workshop

HISTORY: Final = "tests/system/test_histories.py::test_invariants_hold_through_a_seeded_history[{}]"


def tell(changes: Sequence[Change], recorded: Mapping[str, int], root: Path, search: int, seconds: float) -> None:
    """Print a table: the seed of a history that notices each change, or "-"; and how many are noticed.

    Args:
        recorded: by the name of a change, the seed of the history that is played first.
        search: the histories with seeds below are played if that one does not notice the change.
        seconds: most time of the processor for one history.

    Raises:
        FailingTests: a recorded history fails without any change.
    """
    noticed = 0
    for change, seed in _noticing(changes, recorded, root, search, seconds):
        noticed += seed is not None
        print(f"{'-' if seed is None else seed:>6}  {change.name}", flush=True)
    print(f"noticed by histories alone: {noticed} of {len(changes)}")


def _noticing(
    changes: Sequence[Change], recorded: Mapping[str, int], root: Path, search: int, seconds: float
) -> Iterator[tuple[Change, int | None]]:
    first = {change.name: [recorded[change.name]] for change in changes if change.name in recorded}
    known = sorted({seed for seeds in first.values() for seed in seeds})
    with tempfile.TemporaryDirectory(prefix="lode-mutants-") as folder:
        workshop = Workshop(root, Path(folder), seconds, max([search, *(seed + 1 for seed in known)]))
        workshop.expect_success([HISTORY.format(seed) for seed in known])
        for change in changes:
            seeds = {HISTORY.format(seed): seed for seed in (*first.get(change.name, []), *range(search))}
            yield change, seeds.get(workshop.first_failing(change, list(seeds)))
