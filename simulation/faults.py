"""What a network and a busy API server do to one program: lag, lost answers, refusals, and the program's own death.

Everything follows from the random source that is given, call by call, so that a seed gives the same misfortunes again.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from driver.kube.api import Api, Conflict, Gone, Object, Page, PatchType, Resource, Unavailable, WatchEvent

T = TypeVar("T")

RETRY_AFTER_SECONDS = 1.0


class Crash(BaseException):
    """The program dies here. Nothing may catch this but whoever runs programs; what the program knew is lost."""


@dataclass(frozen=True, slots=True)
class Misfortune:
    """The probability of each fault, for each call it can strike."""

    crash: float = 0.0
    """Before any call, and between two changes of a watch: the program dies."""
    lost_request: float = 0.0
    """Any call: the connection breaks before the server has seen the call."""
    lost_answer: float = 0.0
    """Any call: the connection breaks after the call took effect."""
    busy: float = 0.0
    """Any call: the server answers 429 and asks to be left alone for a while."""
    conflict: float = 0.0
    """update, patch, and delete of one certain version: somebody else was faster, as far as one can tell."""
    gone: float = 0.0
    """watch, and list of a further page: the version is too old."""
    lag: float = 0.0
    """watch: only the first few changes arrive this time, perhaps none, and no bookmark."""


CALM = Misfortune()


class FaultyApi:
    """Implements ``driver.kube.api.Api`` for one program: ``api`` as seen from there."""

    def __init__(self, api: Api, randomness: random.Random, misfortune: Misfortune = CALM):
        self.misfortune = misfortune
        """May be changed at any time, such as to calm down at the end of a history."""
        self._api = api
        self._random = randomness

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """As the API's, with misfortune."""
        return self._call(f"get {resource.plural}", lambda: self._api.get(resource, name, namespace))

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page:
        """As the API's, with misfortune."""
        if continue_token and self._strikes(self.misfortune.gone):
            raise _gone(f"list of {resource.plural}")
        return self._call(
            f"list {resource.plural}",
            lambda: self._api.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
            ),
        )

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """As the API's, with misfortune: it may break off, or stop short, anywhere."""
        what = f"watch of {resource.plural}"
        self._before(what)
        if self._strikes(self.misfortune.gone):
            raise _gone(what)
        events = self._api.watch(
            resource,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )
        lags = self._strikes(self.misfortune.lag)
        breaks = self._strikes(self.misfortune.lost_answer)
        for event in events:
            if lags and self._random.random() < 0.5:
                return
            if breaks and self._random.random() < 0.5:
                raise _lost(what)
            yield event
            self._maybe_die(what)

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """As the API's, with misfortune."""
        return self._call(f"create {resource.plural}", lambda: self._api.create(resource, obj, namespace))

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """As the API's, with misfortune."""
        what = f"update {resource.plural}"
        return self._call(what, lambda: self._api.update(resource, obj, subresource), may_conflict=True)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
        field_manager: str = "",
        force: bool = False,
    ) -> Object:
        """As the API's, with misfortune."""
        return self._call(
            f"patch {resource.plural}",
            lambda: self._api.patch(
                resource,
                name,
                patch,
                namespace=namespace,
                subresource=subresource,
                patch_type=patch_type,
                field_manager=field_manager,
                force=force,
            ),
            may_conflict=True,
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """As the API's, with misfortune."""
        self._call(
            f"delete {resource.plural}",
            lambda: self._api.delete(
                resource,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
            ),
            may_conflict=bool(resource_version),
        )

    def _call(self, what: str, call: Callable[[], T], *, may_conflict: bool = False) -> T:
        self._before(what)
        if may_conflict and self._strikes(self.misfortune.conflict):
            raise Conflict(f"{what}: the object has been modified", status=409, reason="Conflict")
        answer = call()
        if self._strikes(self.misfortune.lost_answer):
            raise _lost(what)
        return answer

    def _before(self, what: str) -> None:
        self._maybe_die(what)
        if self._strikes(self.misfortune.lost_request):
            raise _lost(what)
        if self._strikes(self.misfortune.busy):
            raise Unavailable(
                f"{what}: too many requests", status=429, reason="TooManyRequests", retry_after=RETRY_AFTER_SECONDS
            )

    def _maybe_die(self, what: str) -> None:
        if self._strikes(self.misfortune.crash):
            raise Crash(what)

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability


def _lost(what: str) -> Unavailable:
    return Unavailable(f"{what}: connection lost")


def _gone(what: str) -> Gone:
    return Gone(f"{what}: too old resource version", status=410, reason="Expired")
