"""``lode advise``: which pods would have to move so that those that wait can run, and which cards are idle.

run        reads a cluster or files, decides, prints
printed    advice and idle cards as text and for JSON
| waiting  the pods and gangs that wait for devices
moves      the cheapest moves that let a pod or gang run
| idle     the cards that nobody holds
movable    the pods that could move, and what that costs
"""
