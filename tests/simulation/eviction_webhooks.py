"""Webhooks of others, on the API server, that refuse the evictions of certain pods in their own words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from driver.clock import Clock
from driver.kube.api import PODS, Api, ApiCall, Object
from driver.kube.client import error_from
from driver.kube.decorator import WriteDecorator
from driver.kube.objects import is_deleting

T = TypeVar("T")
Answer = int | Literal["ignored"]
"""The status of a refusal; or the answer is that of an eviction, and the pod stays."""
ANSWERS: Final[tuple[Answer, ...]] = (403, 500, 429, 409, "ignored")
FOR_EVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Webhook:
    """Answers evictions for a while."""

    answer: Answer
    text: str
    selects: Callable[[str], bool]
    """Whether it is asked about a pod of this name."""
    since: float
    until: float = FOR_EVER
    """When that ends (monotonic seconds)."""
    tries: bool = True
    """Whether it answers evictions that are only tried (``dryRun``) in the same way. The others meet nothing."""


class Webhooks:
    """The webhooks that there are; they may be changed at any time."""

    def __init__(self, clock: Clock):
        self.known: list[Webhook] = []
        self.clock = clock

    def of(self, pod: str) -> Webhook | None:
        """The webhook that keeps a pod of this name from being evicted now."""
        now = self.clock.monotonic()
        return next((one for one in self.known if one.until > now and one.selects(pod)), None)


class GuardedEvictions(WriteDecorator):
    """The API server with these webhooks.

    Args:
        stayed: is told which webhook has kept which pod from being evicted.
    """

    def __init__(self, api: Api, reader: Api, webhooks: Webhooks, stayed: Callable[[Object, Webhook], None]):
        super().__init__(api)
        self._reader = reader
        self._webhooks = webhooks
        self._stayed = stayed

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer of the webhook, if one concerns the call."""
        webhook = self._webhooks.of(call.name) if call.verb == "evict" else None
        if webhook is None or (call.dry_run and not webhook.tries):
            return proceed()
        pods = self._reader.list(PODS, namespace=call.namespace, limit=0).items
        pod = next((one for one in pods if one["metadata"]["name"] == call.name), None)
        if pod is None or is_deleting(pod) or call.uid not in ("", pod["metadata"]["uid"]):
            return proceed()
        if not call.dry_run:
            self._stayed(pod, webhook)
        if webhook.answer == "ignored":
            nothing: Any = None
            return nothing  # type: ignore[no-any-return]
        raise error_from(webhook.answer, {"message": webhook.text})
