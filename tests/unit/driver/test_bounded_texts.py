"""Whatever users write, what is said about it is short, and says that something is missing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from driver.errors import Fault, InvalidInput
from driver.limits import MAX_EVENT_MESSAGE, MAX_LOG_VALUE, MAX_TRACEBACK, bounded, listed
from driver.observe import bounded_values

_texts = st.text(max_size=300) | st.integers(0, 5_000).map("ä\x01x".__mul__)


@given(_texts, st.integers(40, 2_000))
def test_a_text_is_cut_at_the_limit_and_says_how_much_more_there_is(text: str, most: int) -> None:
    cut = bounded(text, most)
    assert len(cut) <= most
    if cut != text:
        kept, _, more = cut.rpartition("… and ")
        assert text.startswith(kept)
        assert len(kept) + int(more.removesuffix(" more characters")) == len(text)


@given(st.lists(_texts, min_size=1, max_size=50), st.integers(60, 2_000))
def test_a_list_is_cut_at_the_limit_and_says_how_many_more_there_are(texts: list[str], most: int) -> None:
    cut = listed(texts, most)
    assert len(cut) <= most
    whole = "; ".join(texts)
    assert cut == whole if len(whole) <= most - 20 else "more" in cut or cut == whole


def test_the_text_of_many_long_faults_is_short() -> None:
    error = InvalidInput("claim a", [Fault(f"config[{i}]", "y" * 9_900) for i in range(32)])
    assert len(str(error)) < 5_000
    assert str(error).endswith("more")
    assert len(error.faults) == 32


def test_a_line_of_the_log_is_bounded_whoever_writes_it() -> None:
    line: dict[str, Any] = {"event": "pod waits", "message": "m" * 10**6, "exception": "e" * 10**6, "attempt": 3}
    bounded_values(None, "", line)
    assert len(line["message"]) <= MAX_LOG_VALUE
    assert len(line["exception"]) <= MAX_TRACEBACK
    assert (line["event"], line["attempt"]) == ("pod waits", 3)
    assert MAX_EVENT_MESSAGE < MAX_LOG_VALUE
