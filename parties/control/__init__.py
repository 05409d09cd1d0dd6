"""The supervisor, the only one that checks, counts, signs and starts; its socket, ledger, tasks and workers."""
