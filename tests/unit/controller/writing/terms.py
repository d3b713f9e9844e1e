"""Terms of leadership for tests of writing."""


class OneTerm:
    """A leader whose term does not end, unless the test ends it."""

    term: int | None = 1
