"""The requests of claims, compiled once for all claims with equal requests.

compiled      everything that follows from the claims of a pod and their classes
demands       the requests of claims with their alternatives and classes, and their faults
preferences   the policy of a request (``PlacementConfig``)
policies      the ranks of nodes and devices under each policy
"""
