"""One list of offers and kinds, whoever names them."""

from typing import get_args

from driver.kinds import EVERY_OFFER, SHARE_KINDS, WHOLE_KINDS, Offer, ShareKind, WholeKind, share_of


def test_every_offer_and_kind_is_listed() -> None:
    assert get_args(Offer) == EVERY_OFFER
    assert get_args(WholeKind) == WHOLE_KINDS
    assert get_args(ShareKind) == SHARE_KINDS == tuple(map(share_of, WHOLE_KINDS))
