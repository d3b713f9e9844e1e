"""How long it takes to find out who has to go for pods of higher priority."""
