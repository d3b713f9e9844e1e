"""The base class of everything between a program and the API."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from driver.kube.api import READS, Api, ApiCall, WatchEvent

T = TypeVar("T")


class ApiDecorator(Api):
    """Passes every call on to another ``Api``, with hooks for subclasses.

    A subclass overrides ``before`` to refuse calls, ``around`` to act before and after them or to change the answer, or
    ``call`` to pass on another call. Without that, a decorator behaves as the API that it decorates.
    """

    def __init__(self, api: Api):
        self._api = api

    def call(self, call: ApiCall) -> Any:
        """See ``Api``."""
        proceed = partial(self._api.call, call)
        return self.around_watch(call, proceed) if call.verb == "watch" else self.around(call, proceed)

    def before(self, call: ApiCall) -> None:
        """Called before each call is passed on; what it raises reaches the caller instead of an answer."""

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer to ``call``; ``proceed`` passes the call on and returns the answer of the decorated API."""
        self.before(call)
        return proceed()

    def around_watch(self, call: ApiCall, proceed: Callable[[], Iterator[WatchEvent]]) -> Iterator[WatchEvent]:
        """The changes that a watch delivers; by default a watch goes through ``around`` as any other call."""
        return self.around(call, proceed)


class WriteDecorator(ApiDecorator):
    """A decorator that only writes pass through; what is read passes it by."""

    def call(self, call: ApiCall) -> Any:
        """See ``Api``."""
        return self._api.call(call) if call.verb in READS else super().call(call)
