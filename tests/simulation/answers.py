"""What an API server answers to writes besides: any status, any shape, once, for a while, or for ever."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeVar

from driver.clock import Clock
from driver.kube.api import Api, ApiCall, Unavailable
from driver.kube.client import error_from
from driver.kube.decorator import ApiDecorator

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
)
"""The kinds of writes that every controller makes."""
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


@dataclass(slots=True)
class Answers:
    """The troubles with the API server; they may be changed at any time.

    Args:
        longest: seconds after which a write without an answer cannot take effect any more.
    """

    clock: Clock
    longest: float
    random: Random = field(default_factory=lambda: Random(0))
    troubles: list[Trouble] = field(default_factory=list)
    late: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    """Writes that are made later, and when."""

    def trouble_with(self, call: ApiCall) -> Trouble | None:
        """The trouble that the call meets."""
        now = self.clock.monotonic()
        self.troubles = [one for one in self.troubles if one.until > now and one.times > 0]
        kind = kind_of(call)
        found = next((one for one in self.troubles if one.write == kind and one.about(call.name)), None)
        if found is not None:
            found.times -= 1
        return found

    def make_late_writes(self) -> None:
        """Make the writes whose time has come, as the API server does for whom nobody waits any more."""
        now = self.clock.monotonic()
        due = [write for at, write in self.late if at <= now]
        self.late = [one for one in self.late if one[0] > now]
        for write in due:
            try:
                write()
            except Exception:  # noqa: BLE001 - nobody hears of it, whatever it is
                continue


class AnsweringApi(ApiDecorator):
    """The API as a program has it whose writes meet troubles."""

    def __init__(self, api: Api, answers: Answers):
        super().__init__(api)
        self._answers = answers

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer that the trouble gives, if the call meets one."""
        self._answers.make_late_writes()
        trouble = self._answers.trouble_with(call) if call.is_write else None
        if trouble is None:
            return proceed()
        match trouble.answer:
            case int() as code:
                raise error_from(code, {"message": f"{call}: answered with {code}", "reason": ""})
            case "too large":
                raise error_from(500, {"message": "etcdserver: request is too large"})
            case "made":
                proceed()
            case "late":
                at = self._answers.clock.monotonic() + self._answers.random.random() * self._answers.longest
                self._answers.late.append((at, proceed))
            case "without a version":
                return _unversioned(proceed())
        raise Unavailable(f"{call}: timed out")


def _unversioned(answer: T) -> T:
    if not isinstance(answer, dict):
        return answer
    metadata = {name: value for name, value in answer["metadata"].items() if name != "resourceVersion"}
    return {**answer, "metadata": metadata}  # type: ignore[return-value]
