"""Why claims cannot be allocated: counted by device, summed up by node, put into words or JSON."""
