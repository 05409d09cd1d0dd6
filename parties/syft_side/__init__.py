"""What surrounds syft: the server's process, the steward, the comparison of requests, the analyst's side, its fake."""
