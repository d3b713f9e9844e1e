"""What every test runs under."""

import gc
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import Phase, settings

# A busy machine is no defect of the code under test.
settings.register_profile("lode", deadline=None, max_examples=50)
# `make mutants` only asks whether a test fails.
settings.register_profile(
    "mutants", settings.get_profile("lode"), phases=(Phase.explicit, Phase.generate), database=None
)
settings.load_profile("lode")


# Nearly everything stays that collecting tests makes. To look for garbage among it took a third of the time.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for cycles of garbage rarely, and never among modules and collected tests: it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    gc.enable()


@pytest.fixture(autouse=True)
def _logs_end_with_the_test() -> Iterator[None]:
    """A program run inside a test configures logging for the whole process, onto a stream that ends with the test."""
    yield
    structlog.reset_defaults()
