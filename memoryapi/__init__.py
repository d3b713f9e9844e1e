"""A Kubernetes API in memory that answers the programs' calls as a real kube-apiserver does."""

from memoryapi.plain import JOBS
from memoryapi.server import MemoryApi

__all__ = ["JOBS", "MemoryApi"]
