"""ResourceClaimTemplates on demand: made when a pod names them, and removed when no pod names them any more.

The name of such a template says what its claims ask for (``driver.adoption``). It is made when a pod that waits at our
gate names it. A template of such a name that somebody else has made is used, and left alone. The state knows who names
them (``controller.state.templates``), because decisions about pods and gangs depend on it.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from controller.reconcile.podclaims import template_exists
from controller.refusal import Refusal
from controller.state import Changes, State
from controller.worker import AFTER_FAILURE_SECONDS, RetryTimes, Shared, Worker
from controller.writing import Lane, WriteResult, WriteSequence
from controller.writing.steps import CreateObject, DeleteObject, Target
from driver.adoption import template_spec
from driver.errors import InvalidInput
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, Object


@dataclass(frozen=True, slots=True)
class MakeTemplate:
    """Create the template."""

    template: Object


@dataclass(frozen=True, slots=True)
class RemoveTemplate:
    """Remove the template that nobody uses, if it is still this one."""

    uid: str
    version: str


TemplateDecision = MakeTemplate | RemoveTemplate | Refusal[str] | None
"""A decision about one template: refused if pods wait for it, but it may not be made now; None if there is nothing to
do."""


def decide_template(state: State, key: str, others: int, most: int) -> TemplateDecision:
    """Decide about the template on demand ``key`` (namespace/name).

    Args:
        others: how many others the namespace has, with those that are being made.
        most: how many a namespace may have.
    """
    namespace, _, name = key.partition("/")
    if template_exists(state, key):
        if state.on_demand.is_used(key) or not state.on_demand.is_made(key) or not state.templates.readable:
            return None
        resource = RESOURCE_CLAIM_TEMPLATES
        return RemoveTemplate(state.uid_of(resource, key), state.version_of(resource, key))
    if not state.on_demand.awaiting(key):
        return None
    try:
        spec = template_spec(name, state.names)
    except InvalidInput:
        # Each pod that names it is told: ``wait_for_template``.
        return None
    if others >= most:
        why = (
            f"the namespace has {others} templates on demand, and may have {most} (the controller's setting "
            "templates.perNamespace); delete pods that name others, or have the setting raised"
        )
        return Refusal(key, why)
    return MakeTemplate(
        {
            "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
            "kind": RESOURCE_CLAIM_TEMPLATES.kind,
            "metadata": {"name": name, "namespace": namespace, "labels": {state.names.on_demand: "true"}},
            "spec": spec,
        }
    )


_AGAIN_SECONDS: Final = 2.0
"""Pause after a write without an answer, or if others were quicker: by then, the watch has most likely told of it."""


class TemplateSync(Worker):
    """Syncs templates on demand, one decision at a time.

    Nothing of it outlives a term: what is missing and what nobody uses is found from the state, and the time after
    which an unused template is removed begins anew. A template is made in the lane of placing, in the turn of its
    namespace, and removed in the other one.
    """

    def __init__(self, shared: Shared):
        super().__init__(shared)
        self._settings = shared.settings.templates
        self._making: dict[str, dict[str, None]] = {}
        """The templates that are being made or could not be made, by namespace: they count as made."""
        self._retries: RetryTimes[str] = RetryTimes(changed=_AGAIN_SECONDS, unanswered=_AGAIN_SECONDS)
        self._unused: dict[str, float] = {}
        """Since when nobody has used a template that was made (monotonic seconds)."""
        self._crowded: dict[str, dict[str, None]] = {}
        """The templates for which a namespace has no room, by namespace."""

    def restore(self) -> None:
        """Look at all templates on demand, at the start of a term."""
        self._state.on_demand.refused.clear()
        self._queue.soon("template", [*self._state.on_demand])

    def note(self, changes: Changes) -> None:
        """Note the templates for which anything has changed."""
        self._queue.soon("template", changes.keys_of(RESOURCE_CLAIM_TEMPLATES))

    def sync(self, key: str, _: Changes) -> None:
        """Decide about the template ``key``, and have the decision carried out."""
        if self._retries.at(key) == inf:
            # It is looked at again when the write has ended.
            return
        namespace, now = _namespace_of(key), self._clock.monotonic()
        self._crowded.get(namespace, {}).pop(key, None)
        decision = decide_template(self._state, key, self._others(namespace, key), self._settings.per_namespace)
        if not isinstance(decision, MakeTemplate):
            self._end_making(key)
        if not isinstance(decision, RemoveTemplate):
            self._unused.pop(key, None)
        match decision:
            case MakeTemplate(template):
                if self._may_write(key, now):
                    self._making.setdefault(namespace, {})[key] = None
                    self._retries.begin(key)
                    make = CreateObject(Target(RESOURCE_CLAIM_TEMPLATES, key, ""), template)
                    self._writes.submit(WriteSequence(("template", key), (make,), author=self))
            case RemoveTemplate(uid, version):
                if self._is_over(key, now) and self._may_write(key, now):
                    self._retries.begin(key)
                    remove = DeleteObject(Target(RESOURCE_CLAIM_TEMPLATES, key, uid, version))
                    sequence = WriteSequence(("template", key), (remove,), Lane.REPORTING, author=self)
                    self._writes.report(((RESOURCE_CLAIM_TEMPLATES, key), "unused"), sequence)
            case Refusal(why=why):
                first = namespace not in self._crowded
                self._crowded.setdefault(namespace, {})[key] = None
                self._refuse(key, why)
                if first:
                    # What nobody uses makes room at once.
                    made = self._state.on_demand.made_in(namespace)
                    self._queue.soon("template", [one for one in made if one in self._unused])
            case None:
                self._retries.end(key, None, now)
                self._refuse(key, "")
        self._look_for_room(namespace)

    def _others(self, namespace: str, key: str) -> int:
        made = self._state.on_demand.made_in(namespace)
        return len({*made, *self._making.get(namespace, ())} - {key}) if self._making.get(namespace) else len(made)

    def _may_write(self, key: str, now: float) -> bool:
        due = self._retries.at(key)
        if due > now:
            self._queue.add(("template", key), due)
        return due <= now

    def _is_over(self, key: str, now: float) -> bool:
        """Return whether the template has not been used for long, or is in the way of others."""
        due = self._unused.setdefault(key, now) + self._settings.unused_seconds
        if due <= now or _namespace_of(key) in self._crowded:
            return True
        self._queue.add(("template", key), due)
        return False

    def _look_for_room(self, namespace: str) -> None:
        """Look at the next template for which the namespace had no room, if it has now."""
        crowded = self._crowded.get(namespace)
        if crowded is None:
            return
        if crowded and self._others(namespace, "") < self._settings.per_namespace:
            self._queue.soon("template", [next(iter(crowded))])
        elif not crowded:
            del self._crowded[namespace]

    def _refuse(self, key: str, why: str) -> None:
        """Note why the template is not made; the pods that wait for it are decided anew if that is news."""
        refused = self._state.on_demand.refused
        if refused.get(key, "") == why:
            return
        if why:
            refused[key] = why
        else:
            del refused[key]
        self._queue.soon("pod", self._state.on_demand.awaiting(key))

    def _end_making(self, key: str) -> None:
        namespace = _namespace_of(key)
        if making := self._making.get(namespace):
            making.pop(key, None)
            if not making:
                del self._making[namespace]

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in the result of a write. Whoever was quicker, the template is looked at again."""
        [step] = result.sequence.steps
        key, error, makes = step.target.key, result.error, isinstance(step, CreateObject)
        lasting = self._retries.end(key, error, self._clock.monotonic())
        if error is None:
            self._log.info("template made" if makes else "template removed", template=key)
        elif lasting:
            self._log.warning("template not written", template=key, makes=makes, error=str(error))
            if makes:
                self._refuse(key, f"{error}; it is tried again every {AFTER_FAILURE_SECONDS:.0f} s")
        self._queue.soon("template", [key])


def _namespace_of(key: str) -> str:
    return key.partition("/")[0]
