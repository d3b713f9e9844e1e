"""Names of templates in words in a real API server: a wrong word is refused with what to write instead."""

import random
from collections.abc import Iterator

import pytest

from driver.adoption.spelling import FIXED_WORDS, NUMBERED_WORDS, misspelt
from testclusters.controlplane import ControlPlane
from tests.contract.adopting import create
from tests.contract.identity import Identity, Response, eventually

RIGHT = ["lode.gpu", "lode.2-h100-80gi", "lode.share-8gi-30c-hamicore", "lode.mig-1g-10gb-me", "lode.vnpu-vir02-1c"]
RIGHT += ["lode.mig-1g-24gb-me-all", "lode.mig-1g-24gb-no-me", "lode.mig-7g-278gb", "lode.mig-1g-24gb-gfx-2"]
RIGHT += ["lode.mig-a100-1g-10gb", "lode.vir02-1c-310p-vnpu"]
RIGHT += ["lode.32-gpu-binpack-nvlink", "lode.npu-910b3-100c", "lode-adopt.hami.n1", "lodestar.x", "mine"]


WORDS = [
    "gpu",
    "npu",
    "share",
    "mig",
    "vnpu",
    "h100",
    "310p",
    "910b3",
    "2",
    "16",
    "binpack",
    "numa",
    "80gi",
    "30c",
    "me",
]
WORDS += [
    "mps",
    "1g-10gb",
    "3g-40gb-me",
    "1g-24gb-no-me",
    "4g-96gb-gfx",
    "vir02",
    "vir04-3c-ndvpp",
    "8g",
    "1g.10gb",
    "vir02.1c",
]


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
        (
            "lode.2-h10-80gi",
            "'h10' is no word of such names; the types of this name are h20, h100, h200, h800",
        ),
        ("lode.mi300x", "'mi300x' is no word of such names; no type of that name is known"),
        ("lode.shar-8gi", "'shar' is no word of such names; the nearest is 'share'"),
        ("lode.two-gpu", "'two' is no word of such names; docs/requests.md has all words"),
        ("lode.1-310p-vir02", "vir02 needs the word vnpu: write lode.vnpu-1-310p-vir02, or lode.1-310p without it"),
        ("lode.a100-1g-10gb", "1g-10gb needs the word mig: write lode.mig-a100-1g-10gb, or lode.a100 without it"),
        ("lode.mig-1g.10gb", "a profile is written with hyphens: write lode.mig-1g-10gb"),
        ("lode.mig-a100", "mig: say which one, as in lode.mig-a100-1g-10gb"),
        ("lode.h100-8g", "8g is no whole profile"),
        ("lode.33-gpu", "'33' is no word of such names; a number of devices is 1 to 32"),
        ("lode.share-8gi-120c", "'120c' is no word of such names; cores are 1c to 100c"),
        ("lode.share-0.5gi", "'0.5gi' is no word of such names; memory is written as 80gi, 40960mi or 80gb"),
        ("lode.gpu--h100", "'' is no word of such names; write a word before and behind each hyphen"),
    ],
)
def test_a_wrong_word_is_refused_with_what_to_write(admin: Identity, name: str, said: str) -> None:
    refused = naming(admin, "mine", name)
    assert refused.status == 403
    assert f"spec.resourceClaims[1].resourceClaimTemplateName: {name}: {said}" in refused.message


def test_all_wrong_words_are_told_at_once(admin: Identity) -> None:
    refused = naming(admin, "lode.gpux-h10", "lode.sprad-33")
    assert all(f"'{word}' is no word" in refused.message for word in ("gpux", "h10", "sprad", "33"))
    many = naming(admin, "lode." + "-".join(f"x{number}" for number in range(60)))
    assert many.status == 403
    assert "'x7' is no word" in many.message


def test_what_is_said_is_what_the_controller_says(admin: Identity) -> None:
    draw = random.Random(5)
    mistaken = {f"lode.{mistyped(draw)}" for _ in range(200)}
    combined = {"lode." + "-".join(draw.choices(WORDS, k=draw.randint(1, 5))) for _ in range(200)}
    names = sorted(name for name in mistaken | combined if name[-1].isalnum() and name[5].isalnum())
    wrong = [name for name in names if misspelt(name)]
    assert len(wrong) > 200
    for name in wrong:
        refused = naming(admin, name)
        assert refused.status == 403, name
        for text in misspelt(name):
            assert text in refused.message
    right = [name for name in names if not misspelt(name)]
    assert len(right) > 30
    for first in range(0, len(right), 8):
        assert naming(admin, *right[first : first + 8]).ok


def mistyped(draw: random.Random) -> str:
    """A word with a letter too many, too few, or another one."""
    word = draw.choice([*FIXED_WORDS, *NUMBERED_WORDS])
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
