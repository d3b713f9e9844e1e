"""``lode explain``: what an object holds or why it waits, as the controller would decide now. Reads only.

run        which object is meant; prints what is said about it
pods       a pod, claim or gang
| card     a card: who holds what of it, and what closes it
| namespace  a namespace: what it holds, and who waits
"""
