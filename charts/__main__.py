"""`python -m charts`: write the generated part of the chart, and remove what is no longer generated."""

from charts.generate import CHART, GENERATED, generated


def main() -> None:
    """Write the files."""
    files = generated()
    for folder in GENERATED:
        for old in sorted((CHART / folder).glob("*")):
            if str(old.relative_to(CHART)) not in files:
                old.unlink()
    for name, content in files.items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        print(path.relative_to(CHART.parent))


main()
