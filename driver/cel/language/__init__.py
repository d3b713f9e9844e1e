"""The language: text to a syntax tree with macros expanded, and the type check against Kubernetes' declarations.

checker        the static type check
| parser       text to a syntax tree
environment    what Kubernetes declares for device selectors
| macros       calls that become syntax nodes of their own
| tokens       text to tokens
signatures     the id and signature of each overload
| suggest      the known name that a misspelt one is close to
| syntax       the nodes of a syntax tree
| trampoline   recursion on a list instead of Python's stack
| types        the static types, and which is assignable to which
"""
