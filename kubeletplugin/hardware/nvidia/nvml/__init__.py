"""NVML as values: no other package knows the structures of the C library. Only home of ``pynvml``.

events        reads events of cards, and conditions that stay
| measuring   reads what a card measures of itself
| instances   reads, creates and destroys instances of MIG
| reading     reads what NVML says about the system and its cards
facts         what NVML says, as values
| library     loads NVML and calls it; sets the compute mode of a card
"""
