"""The rules of resource.k8s.io/v1 for one device: consumed capacity, taints, constraints.

capacity        how much of each capacity one allocation of a shareable device consumes
| constraints   matchAttribute, distinctAttribute and compatibilityGroups
| taints        taints of devices, and tolerations of requests
"""
