"""The controller as a program that is killed at one of its writes. For tests on real clusters.

``python -m tests.dying_controller NUMBER --settings FILE --kubeconfig FILE``: it dies when its write of that number, of
a claim or a pod, has been carried out, and before it knows that.
"""

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from controller.__main__ import ControllerProcess, connections
from driver.clock import SystemClock
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api, ApiCall
from driver.kube.decorator import ApiDecorator
from driver.observe import configure_logs, logger
from driver.settings_file import settings_in

T = TypeVar("T")

DIED: Final = 9
"""The exit status of a program that died as it should."""


class _DyingApi(ApiDecorator):
    """The API; the program dies after one of the writes."""

    def __init__(self, api: Api, number: int):
        super().__init__(api)
        self._left = number
        self._lock = threading.Lock()

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        answer = proceed()
        if call.is_write and call.resource in (PODS, RESOURCE_CLAIMS):
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    os._exit(DIED)
        return answer


def main(argv: Sequence[str]) -> int:
    """Run the controller; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.dying_controller")
    parser.add_argument("number", type=int)
    parser.add_argument("--settings", required=True)
    parser.add_argument("--kubeconfig", required=True)
    arguments = parser.parse_args(argv)
    settings = settings_in(arguments.settings)
    configure_logs(settings.log_level, settings.log_format)
    api = connections(arguments.kubeconfig, settings)
    dying = replace(api, writing=_DyingApi(api.writing, arguments.number))
    return ControllerProcess(dying, SystemClock(), settings, logger("controller"), os.environ).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
