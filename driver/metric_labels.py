"""Series of metrics as Prometheus reads them. Pure."""

from collections.abc import Iterable, Mapping


def label(text: str) -> str:
    r"""Return a value of a label, in quotes.

    >>> label('a "b"')
    '"a \\"b\\""'
    """
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{text}"'


def labels(**values: str) -> str:
    """Return labels in the order in which they are written, without braces."""
    return ",".join(f"{name}={label(value)}" for name, value in values.items())


def gauges(families: Mapping[str, str], samples: Iterable[tuple[str, str, str]]) -> bytes:
    """Return the text of gauges.

    Args:
        families: what each means, by name, in the order in which they are written. One without samples is left out.
        samples: name, labels and value.
    """
    lines: dict[str, list[str]] = {name: [] for name in families}
    for name, named, value in samples:
        lines[name].append(f"{name}{{{named}}} {value}\n")
    text = []
    for name, of_family in lines.items():
        if of_family:
            text += [f"# HELP {name} {families[name]}\n# TYPE {name} gauge\n", *of_family]
    return "".join(text).encode()
