"""Every target keeps its promise for its seeds, for inputs that broke it once, and for some random ones."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import hostile
from tests.fuzz.__main__ import FOUND
from tests.fuzz.source import Source
from tests.fuzz.targets import TARGETS

KNOWN = [(name, seed) for name, target in TARGETS.items() for seed in target.seeds]
ONCE = [(file.parent.name, file) for file in sorted(FOUND.glob("*/*"))]


@pytest.mark.parametrize(("name", "seed"), KNOWN, ids=[f"{name}-{i}" for i, (name, _) in enumerate(KNOWN)])
def test_seeds(name: str, seed: bytes) -> None:
    TARGETS[name].run(seed)


@pytest.mark.parametrize(("name", "file"), ONCE, ids=[f"{name}-{file.name[:16]}" for name, file in ONCE])
def test_inputs_that_broke_a_promise_once(name: str, file: Path) -> None:
    TARGETS[name].run(file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.binary(max_size=400))
def test_random_inputs(name: str, data: bytes) -> None:
    TARGETS[name].run(data)


@given(data=st.binary(max_size=100))
def test_an_input_is_the_same_each_time(data: bytes) -> None:
    base = {"metadata": {"name": "a"}, "spec": {"list": [1, {"b": None}]}}
    first, second = (hostile.encoded(hostile.mutated(base, Source(data))) for _ in range(2))
    assert first == second


def test_what_is_kept_stays_as_it_is() -> None:
    base = {"metadata": {"name": "a"}, "spec": {"c": 1}}
    for number in range(256):
        changed = hostile.mutated(base, Source(bytes([3, number, number])), lambda path: path[0] == "metadata")
        assert changed["metadata"] == {"name": "a"}
