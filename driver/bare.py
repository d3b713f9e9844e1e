"""Scalars of YAML as they are written. Pure."""


class Bare(str):
    """A scalar without quotes: what it means depends on what is asked for."""

    __slots__ = ()
