"""One list of offers and kinds, whoever names them."""

from typing import get_args

import pytest

from driver.kinds import (
    EVERY_OFFER,
    SHARE_KINDS,
    WHOLE_KINDS,
    CardState,
    CardUse,
    Closure,
    Offer,
    ShareKind,
    WholeKind,
    card_state,
    share_of,
)


def test_every_offer_and_kind_is_listed() -> None:
    assert get_args(Offer) == EVERY_OFFER
    assert get_args(WholeKind) == WHOLE_KINDS
    assert get_args(ShareKind) == SHARE_KINDS == tuple(map(share_of, WHOLE_KINDS))


@pytest.mark.parametrize(
    ("use", "closures", "state"),
    [
        ("free", (), "free"),
        ("partitioned", (), "partitioned"),
        ("free", ("cordoned",), "cordoned"),
        ("free", ("cordoned", "releasing"), "releasing"),
        ("whole", ("cordoned", "releasing"), "whole"),
        ("shared", ("cordoned", "unhealthy"), "unhealthy"),
        ("shared", ("foreign", "unhealthy"), "foreign"),
        ("whole", ("unpublished",), "unpublished"),
    ],
)
def test_what_closes_a_card_is_its_state_unless_only_the_next_claim_minds(
    use: CardUse, closures: tuple[Closure, ...], state: CardState
) -> None:
    assert card_state(use, closures) == card_state(use, closures[::-1]) == state
