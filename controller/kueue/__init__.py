"""Jobs in the queues of Kueue: answers whether their pods would get their devices now, before there are any.

fitchecks   answers the AdmissionChecks of Workloads
fitsnow     decides whether the pods of a Workload would get their devices now
queued      Workloads and AdmissionChecks, and who asks whether they fit
"""

from controller.kueue.fitchecks import FitChecks
from controller.kueue.queued import Queued

__all__ = ["FitChecks", "Queued"]
