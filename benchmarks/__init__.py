"""Programs that print a table with the peer beside us in the same run. Nothing here fails on a slow day."""
