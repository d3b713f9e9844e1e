"""What cards do, as Prometheus knows it: the utilisation that exporters of the vendors measure, joined on the uuid.

prometheus  the port to a Prometheus server, over HTTP
measured    what is asked of the port, and what the answers say of each card and namespace
"""

from cli.usage.measured import CardUsage, Measured, MetricsDatabase, card_hours, measure
from cli.usage.prometheus import PrometheusServer

__all__ = ["CardUsage", "Measured", "MetricsDatabase", "PrometheusServer", "card_hours", "measure"]
