"""A Kubernetes API in memory that answers the programs' calls as a real kube-apiserver does."""

from rehearsal.api.plain import JOBS
from rehearsal.api.server import MemoryApi

__all__ = ["JOBS", "MemoryApi"]
