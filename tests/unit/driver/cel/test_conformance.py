"""Against the answers of Kubernetes' own evaluators: the same outcome, and by the rules of both the stricter one."""

import pytest

from driver.cel import BOTH, RELEASES, KubernetesRelease, SelectorError, SelectorFault, compile_selector
from driver.wire import device_from
from tests.recorded_selectors import Recorded, answers

FILES = ("upstream", "more", "random", "libraries")


def answer(case: Recorded) -> str:
    try:
        selector = compile_selector(case.expression, case.environment)
        device = device_from({"name": "device", **case.device}, case.device["driver"])
        return str(selector.matches(device, case.device["driver"]))
    except SelectorError as error:
        return "unsupported" if error.unsupported else "compile error"
    except SelectorFault:
        return "runtime error"


@pytest.mark.parametrize("release", [*RELEASES.values(), BOTH], ids=str)
@pytest.mark.parametrize("file", FILES)
def test_every_answer_is_that_of_kubernetes(file: str, release: KubernetesRelease) -> None:
    wrong = [
        f"{case.name}: {case.expression}: expected {case.outcome}, got {got}"
        for case in answers(file, release)
        if (got := answer(case)) != case.outcome
    ]
    assert not wrong
