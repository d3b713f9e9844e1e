"""Reports why pods wait: a condition on the pod, and one Event for each object and reason, counted up.

reporter         has conditions and Events written in the reporting lane, if they are news
reminders        when Events about what lasts are written again
events           Events as values
| explanations   why no node takes a pod, found once for all pods of a shape
| last_reports   the last report about each pod, and whether another one is news
"""

from controller.reporting.explanations import Explanations
from controller.reporting.reporter import Reporter

__all__ = ["Explanations", "Reporter"]
