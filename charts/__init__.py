"""The Helm chart, generated from the kustomize manifests: `python -m charts` (`make chart`) writes what is generated.

`lode/values.yaml`, its schema and the templates outside `templates/generated` are written by hand.

__main__   `python -m charts`: writes what is generated, and removes what no longer is
generate   what is generated: a template for each object of the manifests, and the settings files
template   an object as the text of a Helm template
"""

from charts.generate import CHART, SOURCES_DIGEST, built, generated, sources_digest

__all__ = ["CHART", "SOURCES_DIGEST", "built", "generated", "sources_digest"]
