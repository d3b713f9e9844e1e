"""What an expression may cost: the estimate at admission, the count at run time, and where none is needed."""
