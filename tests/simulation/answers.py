"""What an API server answers to writes besides: any status, any shape, once, for a while, or for ever."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from driver.clock import Clock
from driver.kube.api import Api, ApiCall
from driver.kube.client import error_from
from driver.kube.decorator import WriteDecorator
from tests.simulation.faults import Hang, TimedOut

T = TypeVar("T")
Answer = int | Literal["too large", "without a version", "lost", "made", "late"]
"""A status, or: 500 as of a store that refuses the size; a stored object without its version; no answer, to a write
that was not made, that was made, or that is made later."""

STATUSES: Final = (400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 502, 503, 504)
ANSWERS: Final[tuple[Answer, ...]] = (*STATUSES, "too large", "without a version", "lost", "made", "late")
WRITES: Final = (
    "patch resourceclaims",
    "patch resourceclaims/status",
    "patch pods",
    "patch pods/status",
    "evict pods",
    "create events",
    "patch events",
    "update leases",
    "patch nodes",
    "create resourceclaimtemplates",
    "delete resourceclaimtemplates",
    "patch resourcequotas/status",
)
"""The kinds of writes that controllers make."""
FOR_EVER: Final = float("inf")


def kind_of(call: ApiCall) -> str:
    """The kind of a call, as in ``WRITES``."""
    return f"{call}/{call.subresource}" if call.subresource else str(call)


@dataclass(slots=True)
class Trouble:
    """How writes are answered for a while."""

    write: str
    """The kind of the writes."""
    answer: Answer
    until: float = FOR_EVER
    """When that ends (monotonic seconds)."""
    times: float = FOR_EVER
    """How many writes are answered so."""
    about: Callable[[str], bool] = lambda name: True
    """Whether it concerns a write about an object of this name."""


class Answers:
    """The troubles with the API server; they may be changed at any time.

    Args:
        hang: takes over the writes that are made late, or never (``tests.simulation.faults.Hang``).
    """

    def __init__(self, clock: Clock, hang: Hang):
        self.troubles: list[Trouble] = []
        self.hang = hang
        self._clock = clock

    def trouble_with(self, call: ApiCall) -> Trouble | None:
        """The trouble that the call meets."""
        now = self._clock.monotonic()
        self.troubles = [one for one in self.troubles if one.until > now and one.times > 0]
        kind = kind_of(call)
        found = next((one for one in self.troubles if one.write == kind and one.about(call.name)), None)
        if found is not None:
            found.times -= 1
        return found


class AnsweringApi(WriteDecorator):
    """The API as a program has it whose writes meet troubles."""

    def __init__(self, api: Api, answers: Answers):
        super().__init__(api)
        self._answers = answers

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer that the trouble gives, if the call meets one."""
        trouble = self._answers.trouble_with(call) if call.is_write else None
        if trouble is None:
            return proceed()
        match trouble.answer:
            case int() as code:
                raise error_from(code, {"message": f"{call}: answered with {code}"})
            case "too large":
                raise error_from(500, {"message": "etcdserver: request is too large"})
            case "without a version":
                return _unversioned(proceed())
            case "made":
                proceed()
            case "late":
                self._answers.hang(call, proceed)
        raise TimedOut(f"{call}: timed out")


def _unversioned(answer: T) -> T:
    if not isinstance(answer, dict):
        return answer
    metadata = {name: value for name, value in answer["metadata"].items() if name != "resourceVersion"}
    return {**answer, "metadata": metadata}  # type: ignore[return-value]
