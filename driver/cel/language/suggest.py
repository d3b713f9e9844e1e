"""A hint at the known name that a misspelt one is close to."""

import difflib
from collections.abc import Sequence


def suggest(name: str, known: Sequence[str]) -> str:
    """``; did you mean 'x'?`` if one of ``known`` is close to ``name``, else ""."""
    close = difflib.get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
