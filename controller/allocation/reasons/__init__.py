"""The reasons why claims cannot be allocated: counted by device, grouped by node, rendered as text or JSON.

render          reasons as text
summary         reasons of all nodes, grouped, and the closest miss
unsatisfiable   the reasons of one node, as values
"""
