"""Names of templates in words in a real API server: a wrong word is refused with what to write instead."""

import random
from collections.abc import Iterator

import pytest

from driver.adoption.words import CANDIDATES, FIXED_WORDS, NUMBERED_WORDS, advice, is_word
from testclusters import ControlPlane
from tests.contract.adopting import create
from tests.contract.identity import Identity, Response, eventually

RIGHT = ["lode.gpu", "lode.2-h100-80gi", "lode.share-8gi-30c-hamicore", "lode.mig-1g-10gb-me", "lode.vnpu-vir02-1c"]
RIGHT += ["lode.32-gpu-binpack-nvlink", "lode.npu-910b3-100c", "lode-adopt.hami.n1", "lodestar.x", "mine"]


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of an API server with the policies of the default flavor."""
    with ControlPlane(components=()) as plane:
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        admin = Identity.admin(plane)
        eventually("the policy is in force", lambda: naming(admin, "lode.wrong").status == 403, 60)
        yield admin


def naming(admin: Identity, *templates: str) -> Response:
    """The answer for a pod that names the templates."""
    claims = [{"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(templates)]
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": one["name"]} for one in claims]}}
    return create(
        admin,
        "default",
        {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], "resourceClaims": claims}},
    )


def test_known_words_and_other_names_are_admitted(admin: Identity) -> None:
    assert naming(admin, *RIGHT).ok


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lode.2-h10-80gi", "'h10' is no word of such names; the nearest is 'h100'"),
        ("lode.shar-8gi", "'shar' is no word of such names; the nearest is 'share'"),
        ("lode.33-gpu", "'33' is no word of such names; a number of devices is 1 to 32"),
        ("lode.share-8gi-120c", "'120c' is no word of such names; cores are 1c to 100c"),
        ("lode.share-0.5gi", "'0.5gi' is no word of such names; memory is written as 80gi, 40960mi or 80gb"),
        ("lode.gpu--h100", "'' is no word of such names; write a word before and behind each hyphen"),
    ],
)
def test_a_wrong_word_is_refused_with_the_nearest_right_one(admin: Identity, name: str, said: str) -> None:
    refused = naming(admin, "mine", name)
    assert refused.status == 403
    assert f"spec.resourceClaims[1].resourceClaimTemplateName: {name}: {said}" in refused.message


def test_all_wrong_words_are_told_at_once(admin: Identity) -> None:
    refused = naming(admin, "lode.gpux-h10", "lode.sprad-33")
    assert all(f"'{word}' is no word" in refused.message for word in ("gpux", "h10", "sprad", "33"))
    many = naming(admin, "lode." + "-".join(f"x{number}" for number in range(60)))
    assert many.status == 403
    assert "'x7' is no word" in many.message


def test_the_advice_is_that_of_the_controller(admin: Identity) -> None:
    draw = random.Random(5)
    words = [mistyped(draw) for _ in range(200)]
    wrong = sorted({word for word in words if not is_word(word) and word[0].isalnum() and word[-1].isalnum()})
    assert len(wrong) > 100
    for first in range(0, len(wrong), 8):
        some = wrong[first : first + 8]
        refused = naming(admin, *(f"lode.{word}" for word in some))
        for word in some:
            assert f"{word!r} is no word of such names; {advice(word)}" in refused.message
    for word in (*FIXED_WORDS, *NUMBERED_WORDS):
        assert naming(admin, f"lode.{word}").ok


def mistyped(draw: random.Random) -> str:
    """A word with a letter too many, too few, or another one."""
    word = draw.choice(CANDIDATES).replace("-", "")
    place = draw.randrange(len(word))
    letter = draw.choice("abcdefghijklmnopqrstuvwxyz0123456789")
    return (
        draw.choice(
            [
                word[:place] + word[place + 1 :],
                word[:place] + letter + word[place:],
                word[:place] + letter + word[place + 1 :],
                word * 4,
            ]
        )
        or letter
    )
