"""Says why pods wait, after placing: a condition on the pod, and one Event for each object and reason, counted up.

teller           has conditions and Events written in the telling lane, if they are news
reminders        when Events about what lasts are said again
events           Events as values
| explanations   why no node takes a pod, found once for all pods of a shape
| told           what was told about each pod last, and whether something is news
"""

from controller.telling.explanations import Explanations
from controller.telling.teller import Teller

__all__ = ["Explanations", "Teller"]
