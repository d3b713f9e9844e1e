"""Of what cannot be restored at a start, everything else is independent."""

import hashlib
import json
from collections.abc import Mapping

import pytest

from driver.errors import TransientFault
from kubeletplugin.hardware import Action, Card, CardState, Edits, Handle, Hardware, Use
from tests.simulation.hardware_decorator import HardwareDecorator
from tests.unit.kubeletplugin.plugin_node import (
    CDI,
    CHECKPOINT,
    SHARE_A,
    PluginNode,
    opaque,
    prepare,
    recover,
    result,
    share,
    unprepare,
)


class HalfDeaf(HardwareDecorator):
    """Hardware one card of which does not answer."""

    def __init__(self, hardware: Hardware, card: str):
        super().__init__(hardware)
        self.card = card

    def _ask(self, card: str) -> None:
        if card == self.card:
            raise TransientFault(f"card {card} does not answer: an earlier call into the vendor's library still hangs")

    def observe(self, card: Card) -> CardState:
        self._ask(card.uuid)
        return super().observe(card)

    def ensure(self, action: Action) -> Handle:
        self._ask(action.card)
        return super().ensure(action)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        self._ask(use.card.uuid)
        return super().edits(use, handles)


@pytest.mark.parametrize("rebooted", [False, True])
def test_one_card_that_does_not_answer_keeps_no_other_claim_from_being_restored(rebooted: bool) -> None:
    rig = PluginNode()
    cards = rig.hardware.cards()
    bad, good = rig.claim("bad", [result("gpu-0-mig-1g-5gb-6")]), rig.claim("good", [result("gpu-1-mig-1g-5gb-6")])
    rig.plugin().prepare([bad, good])
    files = rig.claim_files()
    if rebooted:
        rig.reboot()
    else:
        for path in files:
            rig.files.remove(path)
    deaf = HalfDeaf(rig.hardware, cards[0].uuid)
    plugin = rig.plugin(hardware=deaf)
    recover(plugin)
    assert plugin.unrestored == {bad.uid}
    assert {path for path in rig.claim_files() if path.startswith(CDI)} == {f"{CDI}/lode.dev-claim_{good.uid}.json"}
    prepare(plugin, rig.claim("new", [result("gpu-2")]))
    plugin.restore_rest()
    assert plugin.unrestored == {bad.uid}
    deaf.card = ""
    plugin.restore_rest()
    assert plugin.unrestored == frozenset()
    assert files <= rig.claim_files()
    assert {"mig:gpu-0:1g.5gb:6", "mig:gpu-1:1g.5gb:6"} <= set(rig.existing())


def test_a_claim_with_parameters_of_a_newer_version_is_left_and_the_others_are_restored() -> None:
    rig = PluginNode()
    newer = rig.claim("newer", [share("gpu-0-share", SHARE_A)], [opaque(kind="GpuConfig", sharing="timeSlicing")])
    plain = rig.claim("plain", [result("gpu-1")])
    rig.plugin().prepare([newer, plain])
    files = rig.claim_files()
    head, _, body = (rig.files.read(CHECKPOINT) or b"").partition(b"\n")
    content = json.loads(body)
    config = content["claims"][newer.uid]["allocation"]["devices"]["config"]
    config[0]["opaque"]["parameters"]["preemption"] = "soft"
    body = json.dumps(content).encode() + b"\n"
    sha = hashlib.sha256(body).hexdigest()
    rig.files.write(CHECKPOINT, json.dumps({**json.loads(head), "sha256": sha}).encode() + b"\n" + body)
    for path in files:
        if plain.uid in path:
            rig.files.remove(path)
    plugin = rig.plugin()
    recover(plugin)
    assert (plugin.unrestored, rig.claim_files()) == (frozenset(), files)
    unprepare(plugin, newer)
