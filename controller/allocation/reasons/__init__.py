"""Why claims cannot be allocated: counted by device, grouped by node, rendered as text or JSON."""
