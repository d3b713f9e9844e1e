"""Reports why pods wait: a condition on the pod, and one Event for each object and reason, counted up.

reporter         has conditions and Events written in the reporting lane, if they are news
reminders        repeats Events about waits that last
events           Events as values
| explanations   explains why no node takes a pod, once for all pods of a shape
| last_reports   the last report about each pod; tells whether another one is news
"""

from controller.reporting.explanations import Explanations
from controller.reporting.reporter import Reporter

__all__ = ["Explanations", "Reporter"]
