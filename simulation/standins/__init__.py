"""Stand-ins for the parts of Kubernetes that run beside this driver, as far as a claim's life needs them.

Each does in small what the real program does to the objects this driver cares about (Kubernetes 1.36 and 1.37), works
through the ``Api`` port alone, sees the world through watches that may lag, and does one piece of work per ``step``.
"""
