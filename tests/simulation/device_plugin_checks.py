"""What must hold at every instant for the devices of device plugins on a node.

An ID is in one hand at a time, and a device plugin is asked once for a claim, as the checkpoint says.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from driver.errors import SENSELESS
from driver.files import Files
from driver.model import Result
from driver.settings import Settings
from kubeletplugin.hardware.actions import PluginAllocation
from kubeletplugin.prepare.checkpoint import CorruptCheckpoint, PreparedClaim
from kubeletplugin.prepare.storage import ClaimStorage
from tests.simulation.device_plugins import VARIABLES, Answered, published_name
from tests.simulation.node import MemoryNode


class KeptAnswer(NamedTuple):
    """An answer of a device plugin that is kept on the disk."""

    claim: str
    resource: str
    ids: tuple[str, ...]


def kept_answers(files: Files, settings: Settings, boot_id: str) -> list[KeptAnswer]:
    """The answers of this boot, and with an empty claim one for each file of another boot or without sense."""
    folder = f"{settings.kubeletplugin.deviceplugin.state_folder}/answers"
    found = []
    for name in files.names(folder):
        try:
            raw = json.loads(files.read(f"{folder}/{name}") or b"")
            action = raw["action"] if raw["bootId"] == boot_id else {}
            found.append(KeptAnswer(action.get("claim", ""), action.get("resource", ""), tuple(action.get("ids", ()))))
        except SENSELESS:
            found.append(KeptAnswer("", "", ()))
    return found


def question_violations(node: MemoryNode, settings: Settings, resource: str, ids: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with asking a device plugin for these IDs now, by the disk of the node."""
    try:
        claims = ClaimStorage(node.files, settings).load().claims
    except CorruptCheckpoint:
        return
    asking = [
        uid
        for uid, claim in claims.items()
        for step in claim.steps
        if isinstance(step.action, PluginAllocation)
        and (step.action.resource, step.action.ids) == (resource, ids)
        and step.handle is None
        and claim.state != "stopping"
    ]
    if len(asking) != 1:
        yield f"{node.name}: {resource} is asked for {ids}, which the checkpoint records for {asking}"
    for kept in kept_answers(node.files, settings, node.boot_id):
        if kept.claim in asking and kept.resource == resource:
            yield f"{node.name}: {resource} is asked again for claim {kept.claim}, for {ids}"
        elif kept.resource == resource and {*ids} & {*kept.ids}:
            yield f"{node.name}: {resource} is asked for {ids}, of which claim {kept.claim} has {kept.ids}"


def answer_violations(node: MemoryNode, settings: Settings, claims: Iterable[PreparedClaim]) -> Iterator[str]:
    """Exactly the answers of prepared claims are kept. Claims that are given up may still have theirs."""
    recorded = {
        (claim.plan.ref.uid, step.action.resource, step.action.ids): claim.state
        for claim in claims
        for step in claim.steps
        if isinstance(step.action, PluginAllocation)
    }
    kept = {*kept_answers(node.files, settings, node.boot_id)}
    if left := kept - recorded.keys():
        yield f"{node.name}: answers of device plugins are kept for nobody: {sorted(left)}"
    if lost := {action for action, state in recorded.items() if state == "completed"} - kept:
        yield f"{node.name}: answers of device plugins are lost: {sorted(lost)}"


class HandChecks:
    """Which IDs the running containers of a node have, by what they were given when they started.

    Args:
        answers: what the device plugins have answered, by the numbers in the variables.
        reported: all IDs that were ever reported, by resource.
    """

    def __init__(
        self,
        node: MemoryNode,
        settings: Settings,
        answers: Mapping[int, Answered],
        reported: Mapping[str, Collection[str]],
    ):
        self._node = node
        self._paths = ClaimStorage(node.files, settings).paths
        self._answers = answers
        self._reported = reported
        self._given: dict[tuple[str, str], Sequence[Answered]] = {}
        """What each claim of each pod was given."""

    def look(self) -> Iterator[str]:
        """What is wrong now."""
        running = {
            (pod, claim)
            for pod, container in self._node.containers.items()
            if not container.exit_phase
            for claim, _ in container.devices
        }
        if running == self._given.keys():
            return
        self._given = {key: given for key, given in self._given.items() if key in running}
        for pod, claim in sorted(running - self._given.keys()):
            given = self._read(claim)
            self._given[pod, claim] = given or ()
            if given is not None:
                results = [result for uid, result in self._node.containers[pod].devices if uid == claim]
                yield from self._faults(claim, given, results)
        yield from self._conflicts()

    def _read(self, claim: str) -> Sequence[Answered] | None:
        """What the CDI spec of a claim gives a container; None if that is lost or damaged since."""
        data = self._node.files.read(self._paths.cdi_file(claim)) or b""
        try:
            lines = {line for device in json.loads(data)["devices"] for line in device["containerEdits"]["env"]}
        except SENSELESS:
            return None
        env = dict(line.split("=", 1) for line in lines)
        return [self._answers[int(env[f"{name}_ANSWER"])] for name in VARIABLES.values() if f"{name}_ANSWER" in env]

    def _faults(self, claim: str, given: Sequence[Answered], results: Sequence[Result]) -> Iterator[str]:
        here = f"{self._node.name}: containers of claim {claim}"
        for each in given:
            if each.boots != self._node.boots:
                yield f"{here} have an answer of {each.resource} from before the machine started again"
        known = {published_name(resource, name) for resource, ids in self._reported.items() for name in ids}
        wanted: Counter[str] = Counter()
        for result in results:
            if result.device.device in known and not result.admin_access:
                wanted[result.device.device] += int(result.consumed["slots"].value) if result.share_id else 1
        has = Counter(published_name(each.resource, name) for each in given for name in each.ids)
        if has != wanted:
            yield f"{here} have {dict(has)}, and were allocated {dict(wanted)}"

    def _conflicts(self) -> Iterator[str]:
        hands: dict[tuple[str, str], set[str]] = {}
        for (_, claim), given in self._given.items():
            for each in given:
                for name in each.ids:
                    hands.setdefault((each.resource, name), set()).add(claim)
        for (resource, name), claims in hands.items():
            if len(claims) > 1:
                yield f"{self._node.name}: ID {name} of {resource} is in the hands of claims {sorted(claims)}"
