"""Names that stand for whole requests: every request has one, and every name says one request or is refused."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adoption import SOURCES, AdoptedName, is_on_demand, read_name
from driver.adoption.naming import ESCAPES, can_be_named, escaped, unescaped
from driver.errors import InvalidInput

_TEXT = st.text(alphabet="abcxyz0189" + "".join(ESCAPES), max_size=30)
_SOURCES = [source for source in SOURCES.values() if source.resources]


@st.composite
def _requests(draw: st.DrawFn) -> AdoptedName:
    source = draw(st.sampled_from(_SOURCES))
    known = [*source.resources.values(), *(["g1g24gbmeallx", "g7g278gbx", "g1g24gbnomex"] if source.migs else [])]
    tokens = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
    keys = [*source.annotations.values(), *source.labels.values()]
    words = draw(st.dictionaries(st.sampled_from(keys), _TEXT, max_size=3)) if keys else {}
    return AdoptedName(source.name, {token: draw(st.integers(1, 10**9)) for token in tokens}, words)


@given(_requests())
def test_a_name_says_the_request_that_it_was_made_from(request: AdoptedName) -> None:
    """Amounts and words come back, in lower case."""
    assert read_name(str(request)) == request


@given(_requests())
def test_every_name_is_one_that_kubernetes_accepts(request: AdoptedName) -> None:
    """RFC 1123 subdomain, but for the length."""
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", str(request))


@given(_TEXT)
def test_an_escaped_text_comes_back(text: str) -> None:
    """Of all characters that can be named."""
    assert can_be_named(text)
    assert unescaped(escaped(text)) == text


@given(st.text(max_size=60))
def test_any_other_name_is_refused_by_itself(text: str) -> None:
    """Whatever somebody writes: an answer or a refusal."""
    with contextlib.suppress(InvalidInput):
        assert str(read_name("lode-adopt." + text))


@pytest.mark.parametrize(
    "name",
    [
        "lode-adopt.",
        "lode-adopt.hami",
        "lode-adopt.hami.",
        "lode-adopt.hami.n",
        "lode-adopt.hami.1",
        "lode-adopt.hami.n1-n2",
        "lode-adopt.hami.n1.t-a.t-b",
        "lode-adopt.hami.n1.t-a-q",
        "lode-adopt.hami.n12345678901",
        "lode-adopt.plain.gpu",
        "n1",
    ],
)
def test_a_name_outside_the_grammar_is_refused(name: str) -> None:
    """With the label that is not understood."""
    with pytest.raises(InvalidInput, match="not understood"):
        read_name(name)


def test_names_on_demand_are_those_with_the_prefixes() -> None:
    """And no others."""
    names = ("lode.h100", "lode-adopt.hami.n1", "lode", "lodestar", "lode-adopted", "my.lode.h100")
    assert [name for name in names if is_on_demand(name)] == ["lode.h100", "lode-adopt.hami.n1"]


def test_the_tokens_and_keys_of_a_source_are_different() -> None:
    """So that a name means one thing."""
    for source in SOURCES.values():
        tokens, keys = list(source.resources.values()), [*source.annotations.values(), *source.labels.values()]
        assert len(set(tokens)) == len(tokens)
        assert len(set(keys)) == len(keys)
