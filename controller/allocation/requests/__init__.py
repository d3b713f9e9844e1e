"""What claims ask for, compiled once for all claims that ask for the same.

compiled      everything that follows from the claims of a pod and their classes
demands       the requests of claims with their alternatives and classes, and their faults
preferences   the policy of a request (``PlacementConfig``)
policies      what each policy prefers among nodes and devices
"""
