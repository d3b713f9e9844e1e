"""Which of the changes written by hand the seeded histories notice by themselves: ``make mutants ARGS=--alone``.

The seed of a history that notices a change is recorded in ``written.yaml``, so that this one is played first: as
``history``, or as ``preemption`` or ``naming`` if it is a history of that kind.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.trial import Change, Workshop

HISTORIES: Final = {
    "history": "tests/system/test_histories.py::test_invariants_hold_through_a_seeded_history[{}]",
    "preemption": "tests/system/test_preemption_histories.py::test_nobody_is_evicted_in_vain[{}]",
    "naming": "tests/system/test_naming_histories.py::test_no_device_is_in_two_hands_while_a_driver_is_named[{}]",
}
"""The test that plays the history of a seed, by kind."""


class History(NamedTuple):
    """A seeded history."""

    seed: int
    kind: str = "history"

    @property
    def test(self) -> str:
        """The test that plays it."""
        return HISTORIES[self.kind].format(self.seed)

    def __str__(self) -> str:
        return str(self.seed) if self.kind == "history" else f"{self.kind} {self.seed}"


def tell(changes: Sequence[Change], recorded: Mapping[str, History], root: Path, search: int, seconds: float) -> None:
    """Print a table: a history that notices each change, or "-"; and how many are noticed.

    Args:
        recorded: by the name of a change, the history that is played first.
        search: the histories of its kind with seeds below are played if that one does not notice the change.
        seconds: most time of the processor for one history.

    Raises:
        FailingTests: a recorded history fails without any change.
    """
    noticed = 0
    for change, history in _noticing(changes, recorded, root, search, seconds):
        noticed += history is not None
        print(f"{'-' if history is None else str(history):>6}  {change.name}", flush=True)
    print(f"noticed by histories alone: {noticed} of {len(changes)}")


def _noticing(
    changes: Sequence[Change], recorded: Mapping[str, History], root: Path, search: int, seconds: float
) -> Iterator[tuple[Change, History | None]]:
    first = {change.name: recorded[change.name] for change in changes if change.name in recorded}
    known = sorted(set(first.values()))
    with tempfile.TemporaryDirectory(prefix="lode-mutants-") as folder:
        workshop = Workshop(root, Path(folder), seconds, max([search, *(one.seed + 1 for one in known)]))
        workshop.expect_success([one.test for one in known])
        for change in changes:
            own = [first[change.name]] if change.name in first else []
            kind = own[0].kind if own else _kind_of(change)
            tests = {one.test: one for one in (*own, *(History(seed, kind) for seed in range(search)))}
            yield change, tests.get(workshop.first_failing(change, list(tests)))


def _kind_of(change: Change) -> str:
    """The kind of histories among the tests that have to notice the change."""
    files = {kind: test.partition("::")[0] for kind, test in HISTORIES.items()}
    return next((kind for kind, file in files.items() if file in change.tests), "history")
