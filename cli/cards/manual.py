"""What remains to be done by hand to reset a card, by vendor. Pure."""

from collections.abc import Sequence
from typing import Final

from cli.cards.card import PublishedCard
from cli.cards.holders import CardHolder

_NVIDIA: Final = (
    "stop what else has the card open there: DCGM and its exporter, nvidia-persistenced, monitoring. "
    "`nvidia-smi pmon -c 1 -i {uuid}` and `fuser -v /dev/nvidia{index}` name them",
    "nvidia-smi --gpu-reset -i {uuid}",
    "if it answers that the GPU cannot be reset alone (GPUs that NVLink bridges or an older NVSwitch connect), drain "
    "all cards of the node, `kubectl lode drain {node}`, and reset them together: nvidia-smi --gpu-reset",
    "if it is refused all the same, or the card has fallen off the bus: start the machine again",
)
_HUAWEI: Final = (
    "find the NPU ID (ID) and the chip ID (CHIP) of the chip with Chip Phy-ID {index}: npu-smi info -m",
    "npu-smi set -t reset -i ID -c CHIP, and -m 1 where the driver asks for an in-band reset. Chips that are connected "
    "by HCCS can be reset only together: drain all cards of the node then, `kubectl lode drain {node}`",
    "npu-smi info -t health -i ID -c CHIP",
)
_STEPS: Final = {"nvidia": _NVIDIA, "huawei": _HUAWEI}
_OTHER: Final = ("reset the card with the tool of its vendor",)


def reset_steps(card: PublishedCard, watching: Sequence[CardHolder]) -> list[str]:
    """Return what to do, one step after the other.

    Args:
        watching: claims with admin access to the card.
    """
    steps = [f"end the pods that watch the card: {holder}" for holder in watching]
    facts = {"uuid": card.uuid or card.name, "index": card.index, "node": card.node}
    steps += [f"log in to node {card.node} as root"]
    steps += [step.format(**facts) for step in _STEPS.get(card.vendor, _OTHER)]
    return [
        *steps,
        f"when the card works again, put it back into service: kubectl lode uncordon {card.key}. One that had failed "
        "keeps the taint of its health until it has worked for a while (kubeletplugin.recoverySeconds)",
    ]
