"""What Sphinx is told."""

import tomllib
from pathlib import Path
from typing import Any, Final

from docsite.contents import HOME

ROOT: Final = Path(__file__).parent.parent

SETTINGS: Final[dict[str, Any]] = {
    "project": "Lode",
    "version": tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"],
    "extensions": ["myst_parser", "docsite.pages"],
    "root_doc": HOME,
    "include_patterns": [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "docs/**.md",
        "driver/cel/README.md",
        "findings/README.md",
        "testclusters/README.md",
        "tests/README.md",
    ],
    "exclude_patterns": [".*", "build"],
    "myst_heading_anchors": 4,
    "myst_links_external_new_tab": False,
    "nitpicky": True,
    "highlight_language": "none",
    "html_theme": "furo",
    "html_static_path": [str(Path(__file__).parent / "static")],
    "html_css_files": ["site.css"],
    "html_title": "Lode",
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_domain_indices": False,
}
