"""How long a decision about a gang takes, compared with kube-scheduler's allocator member by member."""
