"""The evaluator: one Python closure for each node of a syntax tree."""
