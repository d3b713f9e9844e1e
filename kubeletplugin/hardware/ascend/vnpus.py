"""Chooses the vNPU of a claim, and finds the vNPUs on a chip. Pure."""

from collections.abc import Collection, Iterable, Mapping

from driver.kinds import Offer
from kubeletplugin.hardware.actions import VnpuInstance
from kubeletplugin.hardware.answer import LACKS, Unread
from kubeletplugin.hardware.ascend.cards import Npu
from kubeletplugin.hardware.ascend.facts import Chip, Modes, Vnpu
from kubeletplugin.hardware.ascend.generations import A910
from kubeletplugin.hardware.ascend.templates import draws_of
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import FoundObject, NoRoom

FIRST_ID = 100
IDS_OF_A_CHIP = 16
"""The vNPUs of a chip have the ids from ``FIRST_ID + IDS_OF_A_CHIP * <physical id>`` (``npu-smi``, create-vnpu)."""


def chosen(chip: Chip, card: Card, template: str, present: Iterable[Vnpu], taken: Collection[str]) -> VnpuInstance:
    """The vNPU to create, with the first free id.

    Args:
        taken: keys of actions that are stored for other claims.

    Raises:
        NoRoom: no id is free.
    """
    first = FIRST_ID + IDS_OF_A_CHIP * chip.physical_id
    used = {vnpu.id for vnpu in present}
    for number in range(first, first + IDS_OF_A_CHIP):
        action = VnpuInstance(chip.vdie, template, number)
        if number not in used and action.key not in taken:
            return action
    raise NoRoom(f"card {card.name} has no free vNPU id; its ids are {first} to {first + IDS_OF_A_CHIP - 1}")


def handle_of(number: int) -> dict[str, str]:
    """The handle of a vNPU."""
    return {"id": str(number)}


def found_on(chip: Chip, present: Iterable[Vnpu]) -> tuple[FoundObject, ...]:
    """The vNPUs on a chip, whoever created them."""
    return tuple(FoundObject(VnpuInstance(chip.vdie, vnpu.template, vnpu.id), handle_of(vnpu.id)) for vnpu in present)


def shortage(chip: Chip, card: Card, template: str, present: Iterable[Vnpu]) -> str:
    """The resource that is too small for one more vNPU of a template, its users and the remedy; "" if there is room."""
    if card.scheme is None:
        return ""
    wanted = draws_of(card.scheme, template)
    for counter, amount in wanted.items():
        users = {vnpu.id: draws_of(card.scheme, vnpu.template).get(counter, 0) for vnpu in present}
        if sum(users.values()) + amount > card.scheme.counters[counter]:
            holders = ", ".join(str(number) for number, used in users.items() if used)
            return f"{counter} of card {card.name} is used by vNPU {holders}; {removal(chip, '<id>')}"
    return ""


def removal(chip: Chip, number: int | str) -> str:
    """How an operator removes a vNPU that is in the way."""
    where = f"-i {chip.card_id} -c {chip.device_id} -v {number}"
    return f"if no claim has it, remove it with npu-smi set -t destroy-vnpu {where}"


def excluded(npu: Npu, modes: Modes) -> Mapping[Offer, str]:
    """The offers that the modes of a chip exclude, each with the reason and the remedy."""
    card = npu.card
    reasons: dict[Offer, str] = {}
    if npu.memory is LACKS:
        reasons["share"] = "the driver does not say how much memory the card has"
    if modes.shared is False:
        reasons["share"] = (
            f"container sharing of card {card.name} is off; turn it on with npu-smi set -t device-share, which is lost "
            "when the node restarts"
        )
    if card.scheme is None:
        return reasons
    if modes.for_machines is True:
        reasons["partitions"] = (
            "vNPUs of this node are for virtual machines; change that with npu-smi set -t vnpu-mode -d 0"
        )
    elif modes.symmetric is True and npu.generation == A910:
        reasons["partitions"] = f"card {card.name} is in SMP mode, in which it cannot be divided; set AMP mode"
    return reasons


def unread(npu: Npu, modes: Modes) -> Mapping[Offer, str]:
    """The offers that depend on facts that were never read, each with the call that failed."""
    reasons: dict[Offer, str] = {}
    for fact in (npu.memory, modes.shared):
        if isinstance(fact, Unread):
            reasons["share"] = fact.why
    if npu.card.partitions_unread:
        reasons["partitions"] = npu.card.partitions_unread
    elif npu.card.scheme is not None:
        symmetric = modes.symmetric if npu.generation == A910 else LACKS
        for mode in (modes.for_machines, symmetric):
            if isinstance(mode, Unread):
                reasons["partitions"] = mode.why
    return reasons
