"""Reports why pods wait, by a condition on the pod and one Event for each object and reason, and what quotas have left.

reporter         has conditions and Events written in the reporting lane if they are news, and Events again while a wait
                 lasts
quotauses      has the use of quotas written in their status
"""

from controller.reporting.quotauses import QuotaUses
from controller.reporting.reporter import Reporter

__all__ = ["QuotaUses", "Reporter"]
