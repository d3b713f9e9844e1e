"""Which cards the settings leave to other uses."""

from dataclasses import replace

import pytest

from driver.errors import InvalidInput
from driver.settings_file import settings_from
from kubeletplugin.hardware.left_out import LeftOut
from kubeletplugin.hardware.simulated import load_profile
from tests.simulation.files import MemoryFiles

_CARD = replace(
    load_profile("t4x2", MemoryFiles()).cards[0],
    index=3,
    uuid="GPU-5b2c",
    model="NVIDIA T400 4GB",
    pci_bus_id="0000:3b:00.0",
)


@pytest.mark.parametrize(
    "pattern",
    [
        "gpu-3",
        "GPU-3",
        "3",
        "GPU-5b2c",
        "gpu-5*",
        "NVIDIA T400*",
        "nvidia t400 4gb",
        "0000:3b:00.0",
        "00000000:3B:00.0",
    ],
)
def test_a_card_is_left_out_by_what_is_said_of_it(pattern: str) -> None:
    other = replace(_CARD, index=13, uuid="GPU-7", model="NVIDIA RTX A6000", pci_bus_id="0000:4b:00.0")
    assert LeftOut([pattern]).offered((_CARD, other)) == (other,)


@pytest.mark.parametrize("pattern", ["gpu", "gpu-30", "T400", "3b:00.0", "-1", "0"])
def test_a_part_of_it_is_not_enough(pattern: str) -> None:
    assert LeftOut([pattern]).offered((_CARD,)) == (_CARD,)


def test_what_is_not_known_of_a_card_is_compared_with_nothing() -> None:
    unknown = replace(_CARD, index=-1, pci_bus_id="")
    assert LeftOut(["-1", "0000", ""]).offered((unknown,)) == (unknown,)


def test_no_pattern_leaves_every_card() -> None:
    assert LeftOut(()).offered((_CARD,)) == (_CARD,)


def test_an_empty_pattern_is_a_mistake() -> None:
    with pytest.raises(InvalidInput, match="excludeCards"):
        settings_from('kubeletplugin: {excludeCards: [""]}')
