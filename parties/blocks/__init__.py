"""Feature blocks: a file read strictly, typed, described, mirrored by a mock twin, stored under a commitment."""
