"""The evaluator: one Python closure for each node of a syntax tree.

compiler           syntax nodes to closures
calls              code of calls and operators
| comprehensions   the macros that iterate over a list or map
| qualifiers       chains of fields, keys and indexes
activation         the device, the budget and the variables of one evaluation
| lookup           fields, keys and elements of values
"""
