"""The work of ``lode handover``: takes a node from a device plugin while its pods run on, and gives it back.

Every step is derived from the cluster, and from the annotation that the first step writes on the node together with
the label that keeps the device plugin away. So a call that was interrupted is continued by the next one. No card is in
two hands meanwhile: the plugin of the node keeps the cards of the device plugin and of its pods closed to claims, and
before a node is given back all its cards are closed until the device plugin has them.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cli import live
from cli.cards.card import PublishedCard
from cli.cards.device_plugins import (
    RECORD,
    DevicePlugin,
    Record,
    has_pod_on,
    label_value,
    plugins_on,
    record_of,
    start_record,
    users_on,
)
from cli.cards.reading import connected, read_holders, read_rules, read_target
from cli.cards.rules import to_cordon, to_uncordon
from cli.exitcodes import PLACED, WAITS
from driver.clock import Clock, SystemClock
from driver.errors import OperatorFault
from driver.kube.api import DAEMON_SETS, NODES, PODS, Api, ApiError, Conflict, Forbidden, NotFound, Object
from driver.names import Names
from kubeletplugin.publish.other_drivers import HandedOutBy, resources_in
from kubeletplugin.publish.other_programs import GRACE_SECONDS

_PAUSES_SECONDS = (0.25, 2.0)
"""Between two looks at the cluster: the first pause, and the longest. Each is twice the one before."""
_SETTLE_SECONDS = 2.0
"""From a new cordon until the claims count that were decided before."""
_NOTICE_SECONDS = 60.0
"""Time for the plugin of the node to see what the kubelet has forgotten. A device whose name fits no card may be any,
so cards can stay closed for as long as a pod has it."""
_RESTART_SECONDS = GRACE_SECONDS + _NOTICE_SECONDS
"""The same if the kubelet forgot because it was restarted: the plugin of the node waits whether the device plugin comes
back."""
_ATTEMPTS = 10
"""Tries to write a node that others write as well, such as its kubelet."""


@dataclass(frozen=True, slots=True)
class HandoverOptions:
    """How to hand over.

    Attributes:
        daemon_set: ``namespace/name`` of the device plugin; "" if the node has only one.
        timeout_seconds: 0 for no end.
    """

    daemon_set: str = ""
    back: bool = False
    dry_run: bool = False
    timeout_seconds: float = 0.0


def run(arguments: argparse.Namespace) -> int:
    """Hand the node over as the command's arguments say; the exit status."""
    options = HandoverOptions(
        daemon_set=arguments.daemonset,
        back=arguments.back,
        dry_run=arguments.dry_run != "none",
        timeout_seconds=arguments.timeout,
    )
    with connected(arguments) as (api, names):
        return Handover(api, arguments.what.removeprefix("node/"), names, options, SystemClock()).run()


class _OutOfTime(Exception):
    """The time that the user gave is over. Carries what did not come about."""


class Handover:
    """Hands one node over."""

    def __init__(self, api: Api, node: str, names: Names, options: HandoverOptions, clock: Clock):
        self._api = api
        self._node = node
        self._names = names
        self._options = options
        self._clock = clock
        self._begun = clock.monotonic()

    def run(self) -> int:
        """Take all steps; the exit status.

        Raises:
            OperatorFault: it cannot be done, or a right is missing; the message has the remedy.
        """
        try:
            return self._give_back() if self._options.back else self._take()
        except _OutOfTime as late:
            sys.stderr.write(
                f"lode handover: not within {self._options.timeout_seconds:.0f} s: {late}; call it again\n"
            )
            return WAITS

    def _take(self) -> int:
        read_target(self._api, self._node, self._names)  # raises if this driver has no cards there
        node = self._read()
        record = record_of(node)
        if record is None:
            if not resources_in(node) and not self._plugins():
                print(f"node {self._node} offers no device of a device plugin")
                return self._say_who_has_cards()
            record = start_record(node, self._choose(), live.list_all(self._api, DAEMON_SETS))
        elif record.phase == "back":
            raise OperatorFault(f"node {self._node} is being given back; finish that with --back")
        self._say(f"keep the device plugin {record.daemon_set} away: label {record.label}={label_value(record)}")
        self._say("wait until its pod has left, and the kubelet has forgotten its devices (up to five minutes)")
        if self._options.dry_run:
            users = users_on(self._node, self._pods())
            print(f"pods that run on with their cards: {', '.join(users) or 'none'}")
            return PLACED
        if record.phase == "closing":
            self._open(record)
        self._write(replace(record, phase="taken"))
        self._await(f"the pod of {record.daemon_set} has left", lambda: not self._has_pod(record.daemon_set))
        self._await("the kubelet counts no device of a device plugin", lambda: not resources_in(self._read()))
        forgotten = self._clock.monotonic()
        self._await(
            "free cards are open to claims",
            lambda: self._is_open() or self._clock.monotonic() >= forgotten + self._notice_seconds(),
        )
        return self._say_who_has_cards()

    def _give_back(self) -> int:
        record = record_of(self._read())
        if record is None:
            raise OperatorFault(f"node {self._node} was not handed over by this command")
        self._say("close all cards to claims")
        self._say(f"let the device plugin {record.daemon_set} come back, and wait until it offers the cards")
        self._say("open what it leaves")
        if self._options.dry_run:
            return PLACED
        if record.phase != "back":
            record = self._close(record)
            target = read_target(self._api, self._node, self._names)
            holding = [one for one in read_holders(self._api, target, self._names) if not one.admin_access]
            if holding:
                sys.stderr.write(f"lode handover: claims hold cards; first kubectl lode drain {self._node}\n")
                sys.stderr.writelines(f"  held by {holder}\n" for holder in holding)
                return WAITS
            record = replace(record, phase="back")
            self._write(record)
        self._await(f"the device plugin {record.daemon_set} offers cards", lambda: bool(resources_in(self._read())))
        # Cards of pods that run on are closed all the time. That says nothing of the other cards.
        offered = HandedOutBy.DEVICE_PLUGIN
        self._await("the plugin of the node has closed these cards", lambda: offered in self._closed().values())
        self._open(record)
        self._write(None)
        print(f"node {self._node} is given back to {record.daemon_set}")
        return PLACED

    def _close(self, record: Record) -> Record:
        """Close all cards to claims, after it is written down whether they were closed before."""
        target = read_target(self._api, self._node, self._names)
        rules = read_rules(self._api, self._names)
        changes = to_cordon(target, rules.rules, self._names)
        if record.phase == "taken":
            record = replace(record, phase="closing", cordoned=not changes.create)
            self._write(record)
        rules.write(self._api, changes)
        if changes.create:
            self._clock.sleep(_SETTLE_SECONDS)
        return record

    def _open(self, record: Record) -> None:
        """Undo ``_close``, unless the cards were closed before."""
        if not record.cordoned:
            target = read_target(self._api, self._node, self._names)
            rules = read_rules(self._api, self._names)
            rules.write(self._api, to_uncordon(target, rules.rules, self._names))

    def _choose(self) -> DevicePlugin:
        """The device plugin that is meant.

        Raises:
            OperatorFault: none is on the node, or several are and the user named none of them.
        """
        found = {plugin.key: plugin for plugin in self._plugins()}
        wanted = self._options.daemon_set or (next(iter(found)) if len(found) == 1 else "")
        if wanted in found:
            return found[wanted]
        there = ", ".join(found) or "none"
        if wanted:
            raise OperatorFault(f"DaemonSet {wanted} registers no devices on node {self._node}; those that do: {there}")
        if found:
            raise OperatorFault(f"several DaemonSets register devices on node {self._node}; add --daemonset: {there}")
        offered = ", ".join(resources_in(self._read()))
        raise OperatorFault(f"node {self._node} offers {offered}, and no DaemonSet there does; stop the device plugin")

    def _plugins(self) -> tuple[DevicePlugin, ...]:
        return plugins_on(self._node, self._pods(), live.list_all(self._api, DAEMON_SETS))

    def _pods(self) -> list[Object]:
        return live.list_all(self._api, PODS, field_selector=f"spec.nodeName={self._node}")

    def _has_pod(self, daemon_set: str) -> bool:
        return has_pod_on(daemon_set, self._node, self._pods())

    def _read(self) -> Object:
        node = live.get_one(self._api, NODES, self._node, "")
        if node is None:
            raise OperatorFault(f"there is no node {self._node!r}; correct the name")
        return node

    def _write(self, record: Record | None) -> None:
        """Write label and annotation in one request; None removes the annotation."""
        for _ in range(_ATTEMPTS):
            node = self._read()
            known = record_of(node)
            if known == record:
                return
            metadata: Object = {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": {RECORD: record.text() if record else None},
            }
            if record:
                metadata["labels"] = {record.label: label_value(record)}
            try:
                self._api.patch(NODES, self._node, {"metadata": metadata})
                return
            except Conflict:
                continue
            except Forbidden as error:
                raise live.fault_of_forbidden(error, live.MissingRight("patch", NODES)) from error
            except NotFound:
                raise OperatorFault(f"node {self._node} is gone") from None
            except ApiError as error:
                raise live.fault_of_api_error(error) from error
        raise OperatorFault(f"node {self._node} was changed by others at every try; call it again")

    def _closed(self) -> Mapping[str, str]:
        return self._closed_of(self._cards())

    def _closed_of(self, cards: Iterable[PublishedCard]) -> Mapping[str, str]:
        """The cards that the plugin of the node keeps for another driver, by name, and what hands each out."""
        taint = self._names.attribute("other-driver")
        return {card.name: it.value for card in cards for own in card.devices.values() for it in own if it.key == taint}

    def _cards(self) -> tuple[PublishedCard, ...]:
        return read_target(self._api, self._node, self._names).cards

    def _is_open(self) -> bool:
        """Whether no more cards are closed than pods can have from the device plugin."""
        return len(self._closed()) <= sum(users_on(self._node, self._pods()).values())

    def _notice_seconds(self) -> float:
        kept = HandedOutBy.DEVICE_PLUGIN in self._closed().values()
        return _RESTART_SECONDS if kept else _NOTICE_SECONDS

    def _say_who_has_cards(self) -> int:
        cards, users = self._cards(), users_on(self._node, self._pods())
        closed = self._closed_of(cards)
        opened = [card.name for card in cards if card.name not in closed]
        print(f"node {self._node}: open to claims: {', '.join(opened) or 'no card'}")
        if users:
            print(f"cards of pods that run on: {', '.join(closed) or 'none'}; pods: {', '.join(users)}")
        return PLACED

    def _say(self, step: str) -> None:
        print(f"{step} (dry run)" if self._options.dry_run else step)

    def _await(self, condition: str, holds: Callable[[], bool]) -> None:
        pause, longest = _PAUSES_SECONDS
        while not holds():
            limit = self._options.timeout_seconds
            if limit and self._clock.monotonic() - self._begun >= limit:
                raise _OutOfTime(condition)
            self._clock.sleep(pause)
            pause = min(2 * pause, longest)
