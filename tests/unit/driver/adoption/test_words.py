"""What is said of a word that no name of a template has."""

import pytest

from driver.adoption.words import CANDIDATES, FIXED_WORDS, advice, nearest_word


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("h10", "h100"),
        ("h1000", "h100"),
        ("shar", "share"),
        ("mgi", "mig"),
        ("vpnu", "vnpu"),
        ("gpus", "gpu"),
        ("spred", "spread"),
        ("timeslice", "timeslicing"),
        ("l40x", "l40s"),
        ("910b5", "910b1"),
        ("80gig", "80gi"),
        ("binpacking-of-all-cards", "binpack"),
    ],
)
def test_the_nearest_word_is_the_one_that_was_meant(word: str, nearest: str) -> None:
    """Also in a long text, of which only the beginning is compared."""
    assert nearest_word(word) == nearest


@pytest.mark.parametrize("word", FIXED_WORDS)
def test_a_word_is_nearest_to_itself(word: str) -> None:
    """So no word hides another one."""
    assert nearest_word(word) == word


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "a word before and behind each hyphen"),
        ("0", "1 to 32"),
        ("33", "1 to 32"),
        ("101c", "1c to 100c"),
        ("0.5gi", "80gi"),
        ("90tb", "80gi"),
        ("h10", "the nearest is 'h100'"),
    ],
)
def test_words_with_numbers_are_advised_by_what_they_look_like(word: str, said: str) -> None:
    """Others by the nearest word."""
    assert said in advice(word)


def test_there_are_fewer_candidates_than_the_policy_can_count() -> None:
    """It tells them apart by three digits."""
    assert len(CANDIDATES) < 1000
