"""Which pods wait, in which order they are served, and what they mean for each other's nodes. Pure.

OpenQuestions   nodes where kube-scheduler is being asked about pods that it has refused before
"""

from controller.waiting.questions import OpenQuestions

__all__ = ["OpenQuestions"]
