"""The documentation site: `make site` builds it from the pages of this repository, and any warning is an error.

The pages stay where they are and are read as they are on GitHub. `docs/README.md` is the map for the readers of the
repository and the table of contents of the site. Nothing that a page of the site shows comes from the network.

__main__   `python -m docsite FOLDER`: builds the site
settings   what Sphinx is told
| pages    what is changed in a page on its way to the site: contents, drawings, entries of the index
contents   the parts of the site and their pages, from the map
"""
