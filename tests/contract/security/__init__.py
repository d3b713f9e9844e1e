"""Who may do what, as a table: ``docs/security.md`` shows it, and a real kube-apiserver is asked about every cell."""
