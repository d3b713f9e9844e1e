"""`python -m docsite`: build the site. The status is 1 if a page has a fault, all of which are printed."""

import argparse
import sys
from pathlib import Path

from sphinx.application import Sphinx

from docsite.settings import ROOT, SETTINGS


def main() -> int:
    """Build the site."""
    parser = argparse.ArgumentParser("python -m docsite", description="Build the documentation site.")
    parser.add_argument("folder", type=Path, help="where the site is written")
    parser.add_argument("--source", type=Path, default=ROOT, help="the repository with the pages")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    site = Sphinx(
        srcdir=arguments.source.resolve(),
        confdir=None,
        outdir=folder,
        doctreedir=folder.with_name(f"{folder.name}-read"),
        buildername="html",
        confoverrides=SETTINGS,
        status=None,
        freshenv=True,
        warningiserror=True,
    )
    site.build()
    return int(site.statuscode)


sys.exit(main())
