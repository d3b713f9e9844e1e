"""A Kubernetes API in memory with its schema and rules; it answers the programs' calls as a kube-apiserver does."""

from driver.kube.api import JOBS
from memoryapi.server import MemoryApi

__all__ = ["JOBS", "MemoryApi"]
