"""Reads what decisions rest on, and follows whether it is up to date: nothing may be decided from anything else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from controller.state import DEVICE_TAINT_RULES_BETA, Changes, State, StateDelta
from controller.state.kinds import OPTIONAL_RESOURCES
from controller.worker import Shared, Worker
from controller.worker.metrics import ControllerMetrics
from controller.writing import WriteResult, WriteSequence
from controller.writing.steps import ReadPage, Target
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    Forbidden,
    Resource,
)
from driver.kube.reflector import Reflector

_FIELD_SELECTORS: Final = {PODS: "status.phase!=Failed"}
"""A pod that has failed uses nothing. The API reports it as deleted when it fails. One that has succeeded uses nothing
either, but counts as a member of its gang."""
_OF_SWITCHES: Final = (POD_DISRUPTION_BUDGETS, KUEUE_WORKLOADS, KUEUE_ADMISSION_CHECKS)
"""Kinds that are watched only with a setting. A cluster need not serve them, or let this program read them."""
_RULES: Final = frozenset({DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA})
"""Kinds that a cluster need not serve. But while they may not be read, devices could be handed out against them."""
_NEEDED: Final = frozenset({RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, *_RULES})
"""Kinds without which nothing may be decided: devices in use, published devices, and meanings of requests.

A decision from pods and nodes that are out of date is at worst refused, by kube-scheduler or by the precondition of a
write.
"""
LASTING_SECONDS: Final = 30.0
"""Time that a kind may be out of contact before the program is not ready.

A missing right is a matter for an operator at once.
"""
_READ_AGAIN_SECONDS: Final = 1.0
"""Pause before the claims are read anew at the start of a term, after a failure."""


def reflectors_of(
    api: Api, state: State, deliver: Callable[[StateDelta], None], now: Callable[[], float]
) -> Sequence[Reflector]:
    """Return a reflector for each kind that the state needs, which passes decoded reports to ``deliver``."""
    return tuple(
        Reflector(
            api,
            resource,
            lambda delta: deliver(state.decode(delta)),
            field_selector=_FIELD_SELECTORS.get(resource, ""),
            optional=resource in (*OPTIONAL_RESOURCES, *_OF_SWITCHES),
            now=now,
        )
        for resource in state.resources
    )


def ages_of(reflectors: Iterable[Reflector], now: Callable[[], float]) -> Mapping[str, Callable[[], float]]:
    """Return, by plural, how long ago the API last told of the kind; the longest if several kinds have one plural."""
    alike: dict[str, list[Reflector]] = {}
    for reflector in reflectors:
        alike.setdefault(reflector.resource.plural, []).append(reflector)

    def age(ones: Iterable[Reflector]) -> float:
        return now() - min(one.heard for one in ones)

    return {plural: partial(age, ones) for plural, ones in alike.items()}


class Contact:
    """Follows the reflectors' errors."""

    def __init__(self, metrics: ControllerMetrics, state: State):
        self._metrics = metrics
        self._state = state
        self._since: dict[Resource, float] = {}
        self._told: list[str] = []
        """Plurals of the kinds that were out of contact at the last check."""
        self.stale = ""
        """Reason why nothing may be decided; "" if everything that decisions rest on is up to date."""
        self.lasting = ""
        """Reason why an operator has to look; "" if there is none, or if it may pass by itself."""

    def check(self, reflectors: Iterable[Reflector], now: float) -> None:
        """Take in which reflectors are in contact at ``now`` (monotonic seconds)."""
        stale, lasting = [], []
        out_of_contact = dict.fromkeys(self._told, 0.0)
        failing = [(one, error) for one in reflectors if (error := one.error or one.forbidden) is not None]
        self._since = {one.resource: self._since.get(one.resource, now) for one, _ in failing}
        for reflector, error in failing:
            resource = reflector.resource
            elapsed = now - self._since[resource]
            # Several kinds have one plural, such as PodGroups.
            out_of_contact[resource.plural] = max(elapsed, out_of_contact.get(resource.plural, 0))
            if reflector.error is None and resource not in _RULES:
                continue
            problem = f"cannot list or watch {resource.plural}: {error}"
            if resource in _NEEDED:
                stale.append(problem)
            if isinstance(error, Forbidden) or elapsed >= LASTING_SECONDS:
                lasting.append(problem)
        for plural, seconds in out_of_contact.items():
            self._metrics.out_of_contact(plural, seconds)
        self._told = [plural for plural, seconds in out_of_contact.items() if seconds]
        self.stale, self.lasting = "; ".join(stale), "; ".join(lasting)

    @property
    def unreadable_rule(self) -> str:
        """The taint rule that cannot be decoded, against which devices could be handed out; "" if there is none."""
        unreadable = self._state.unreadable
        if not unreadable.count(DEVICE_TAINT_RULES.plural):
            return ""
        [rule, *_] = unreadable.objects(DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
        return f"{rule.fault}; write it anew, or delete it"


class ClaimReading(Worker):
    """Reads the claims once more at the start of a term: watches may lag behind writes.

    Attributes:
        done: whether that has ended.
    """

    def __init__(self, shared: Shared):
        super().__init__(shared)
        self._again_at: float | None = None
        """When they are read anew, after a failure (monotonic seconds)."""
        self._under_way = self._once_more = False
        self.done = False

    def restore(self) -> None:
        """Begin to read; once more, if they are being read."""
        self._once_more, self._under_way, self.done = self._under_way, True, False
        if not self._once_more:
            self._read("")

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._again_at

    def work(self) -> bool:
        """Begin anew if that is due."""
        if self._again_at is None or self._again_at > self._clock.monotonic():
            return False
        self._again_at = None
        self._read("")
        return True

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in a page of claims, and read the next one."""
        if result.error is not None:
            self._log.warning("cannot read claims", error=str(result.error))
            self._again_at = self._clock.monotonic() + _READ_AGAIN_SECONDS
        elif result.next_page:
            self._read(result.next_page)
        elif self._once_more:
            self._once_more = False
            self._read("")
        else:
            self._under_way, self.done = False, True

    def _read(self, token: str) -> None:
        step = ReadPage(Target(RESOURCE_CLAIMS, "", ""), token)
        self._writes.submit(WriteSequence(("list", ""), (step,), author=self))
