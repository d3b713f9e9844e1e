"""What the controller would decide, for commands that show it. Nothing is written anywhere.

simulator   what the controller would do about a snapshot, step by step
| settings  the part of the controller's settings that decisions depend on
outcomes    what came of a pod or claim: as a value, as JSON and as lines of a table
| closeness  which cards requests get and why no closer ones, in words
| snapshot  input objects as the state that the controller decides from, with notes on them
evictions   who would be evicted for a pod or gang that waits
| allowance  what one simulation may cost
"""
