"""The language: text to a syntax tree with macros expanded, and the type check against Kubernetes' declarations."""
