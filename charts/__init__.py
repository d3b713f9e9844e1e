"""The Helm chart, generated from the kustomize manifests: `python -m charts` (`make chart`) writes what is generated.

`lode/values.yaml`, its schema and the templates outside `templates/generated` are written by hand.
"""

from charts.generate import CHART, SOURCES_DIGEST, built, generated, sources_digest

__all__ = ["CHART", "SOURCES_DIGEST", "built", "generated", "sources_digest"]
