"""Labels of metrics as Prometheus reads them. Pure."""


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
