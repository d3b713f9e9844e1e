"""What is generated to install Lode: `python -m charts` (`make chart`) writes it.

The Helm chart follows from the kustomize manifests, and the components in `manifests/adopt` from `driver.adoption`.

`lode/values.yaml`, its schema and the templates outside `templates/generated` are written by hand.

__main__    `python -m charts`: writes what is generated, and removes what no longer is
generate    what is generated of the chart: a template for each object of the manifests, and the settings files
template    an object as the text of a Helm template
monitoring  the rules of Prometheus as an object for its operator
| board     the board for Grafana, from a list of panels
| adoption  the policies that adopt pods of other systems
"""

from charts.generate import CHART, SOURCES_DIGEST, built, generated, sources_digest

__all__ = ["CHART", "SOURCES_DIGEST", "built", "generated", "sources_digest"]
