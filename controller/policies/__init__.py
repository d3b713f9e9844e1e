"""Checks that the admission policies that make this controller the only allocator are in force.

guard        checks the policies again and again, and says why nothing may be allocated
comparison   compares a policy or binding with the one that is expected
| shipped    the policies and bindings as this version installs them
"""

from controller.policies.comparison import deviation
from controller.policies.guard import PolicyGuard
from controller.policies.shipped import expected_policies, policy_resource

__all__ = ["PolicyGuard", "deviation", "expected_policies", "policy_resource"]
