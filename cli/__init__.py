"""The ``lode`` command, its demo and the tables it prints."""
