"""A pytest plugin: it notes which lines each test runs and for how long, or runs given tests in a given order."""

import json
import math
import resource
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

MEMORY_BYTES = 4 << 30
"""Most data of the process, so that a change that makes the tests collect things without end fails them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach-folder", type=Path, help="write into this folder which lines each test runs")
    parser.addoption("--order-file", type=Path, help="run the tests that this JSON list names, in its order")
    parser.addoption("--running-file", type=Path, help="write into this file which test runs")
    parser.addoption("--cpu-seconds", type=float, help="kill the process if a test takes more time of the processor")


def pytest_configure(config: pytest.Config) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    if folder := config.getoption("--reach-folder"):
        config.pluginmanager.register(Recorder(folder))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if file := config.getoption("--order-file"):
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in json.loads(file.read_text()) if name in found]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if file := item.config.getoption("--running-file"):
        file.write_text(item.nodeid)
    if seconds := item.config.getoption("--cpu-seconds"):
        end = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1]))


class Recorder:
    """Writes ``lines``, the coverage by test, and ``seconds``, the duration of each test."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._seconds: dict[str, float] = {}
        self._coverage = coverage.Coverage(
            data_file=folder / "lines", include=["controller/*", "driver/*", "kubeletplugin/*"], config_file=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        begin = time.monotonic()
        result = yield
        self._seconds[item.nodeid] = time.monotonic() - begin
        self._coverage.switch_context("")
        return result

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        (self._folder / "seconds").write_text(json.dumps(self._seconds))
