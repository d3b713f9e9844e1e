"""MIG profiles are known by their form, so those of a new card are, too."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adoption import SOURCES, adopt, migs, template_spec
from driver.names import Names
from tests.adoption_cases import MIG_PROFILES

_SUFFIXES = {"": "", ".me": "+me", ".me.all": "+me.all", ".gfx": "+gfx", "-me": "-me"}


def _profile_of(template: str) -> tuple[str, str]:
    """The name of the only request, and the profile that it asks for."""
    [request] = template_spec(template, Names())["spec"]["devices"]["requests"]
    [selector] = request["exactly"]["selectors"]
    return request["name"], selector["cel"]["expression"].partition(".profile == ")[2].strip('"')


def _templates(resource: str, source: str) -> list[str]:
    container = {"name": "main", "resources": {"limits": {resource: 1}}}
    adoption = adopt({"metadata": {}, "spec": {"containers": [container]}}, SOURCES[source])
    assert not adoption.refused
    return list(adoption.templates.values())


@pytest.mark.parametrize("source", ["nvidia", "hami"])
@pytest.mark.parametrize("plugin", MIG_PROFILES)
def test_a_resource_is_a_claim_for_its_profile(plugin: str, source: str) -> None:
    [template] = _templates(f"nvidia.com/mig-{plugin}", source)
    assert _profile_of(template)[1] == MIG_PROFILES[plugin]


@given(st.integers(1, 9), st.integers(1, 9999), st.sampled_from(sorted(_SUFFIXES)))
def test_sizes_that_no_card_has_yet_are_known(slices: int, gigabytes: int, suffix: str) -> None:
    """By every way to say them, which all mean the same."""
    size = f"{slices}g.{gigabytes}gb"
    [template] = _templates(f"nvidia.com/mig-{size}{suffix}", "nvidia")
    name, profile = _profile_of(template)
    assert profile == size + _SUFFIXES[suffix]
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert _profile_of(f"lode.mig-{migs.in_words(profile)}")[1] == profile


def test_no_two_profiles_of_a_pod_have_the_same_request_or_template() -> None:
    """Profiles with media engines and without them are on one card."""
    found = [_templates(f"nvidia.com/mig-{it}", "nvidia")[0] for it in MIG_PROFILES]
    assert len(set(found)) == len({_profile_of(it)[0] for it in found}) == len(MIG_PROFILES)


@pytest.mark.parametrize("name", ["1g.24gb.xyz", "1g.24gb+me", "1.24gb", "1g.gb", "0g.5gb", "1g.24gb.me.me", "1g.5gb "])
def test_other_names_are_none(name: str) -> None:
    assert not SOURCES["nvidia"].taken([f"nvidia.com/mig-{name}"])
    assert migs.profile_of_token(f"g{name.replace('.', '')}") == ""


@pytest.mark.parametrize("name", ["gpu", "mig-1g.5gb", "mig-1g.24gb.me.all", "mig-1g.24gb-me"])
def test_time_slices_are_refused_with_the_remedy(name: str) -> None:
    container = {"name": "main", "resources": {"limits": {f"nvidia.com/{name}.shared": 1}}}
    [broken] = adopt({"metadata": {}, "spec": {"containers": [container]}}, SOURCES["nvidia"]).refused
    assert f"nvidia.com/{name}.shared" in broken.field
    assert "a time slice has no size" in broken.remedy


@pytest.mark.parametrize(
    ("words", "profile"),
    [
        ("1g-24gb-gfx", "1g.24gb+gfx"),
        ("1g-24gb-me-all", "1g.24gb+me.all"),
        ("1g-24gb-no-me", "1g.24gb-me"),
        ("1g-24gb-me", "1g.24gb+me"),
        ("7g-278gb", "7g.278gb"),
    ],
)
def test_words_have_all_suffixes(words: str, profile: str) -> None:
    assert _profile_of(f"lode.mig-{words}")[1] == profile
