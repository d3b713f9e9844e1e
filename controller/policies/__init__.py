"""Whether the admission policies that make this controller the only allocator are in force.

expected_policies   the policies and bindings as this version installs them
policy_resource     where the API serves one of them
deviation           how an object of the API falls short of the one that is expected (pure)
PolicyGuard         looks at them again and again, and says why nothing may be allocated
"""

from controller.policies.comparison import deviation
from controller.policies.guard import PolicyGuard
from controller.policies.shipped import expected_policies, policy_resource

__all__ = ["PolicyGuard", "deviation", "expected_policies", "policy_resource"]
