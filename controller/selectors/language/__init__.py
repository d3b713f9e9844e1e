"""CEL as a language: text to syntax, macros expanded, and the static check against what Kubernetes declares."""
