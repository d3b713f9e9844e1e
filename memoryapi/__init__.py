"""A Kubernetes API in memory with its schema and rules; it answers the programs' calls as a kube-apiserver does."""

from memoryapi.server import MemoryApi
from memoryapi.simple_kinds import JOBS

__all__ = ["JOBS", "MemoryApi"]
