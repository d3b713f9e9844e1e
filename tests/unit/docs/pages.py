"""The pages of documentation, for the tests in this folder."""

from pathlib import Path

ROOT = Path(__file__).parents[3]

PAGES = tuple(
    sorted(
        str(file.relative_to(ROOT))
        for pattern in (
            "*.md",
            "docs/*.md",
            "docs/decisions/*.md",
            "docs/migrating/*.md",
            "docs/tutorials/*.md",
            "docs/runbooks/*.md",
            "driver/cel/README.md",
            "findings/README.md",
            "testclusters/README.md",
            "tests/README.md",
        )
        for file in ROOT.glob(pattern)
    )
)
"""Their paths in the repository."""


def page(path: str) -> str:
    return (ROOT / path).read_text()
