"""The search for devices where the first fit is not a solution: bounds by counting first, then trying in order."""
