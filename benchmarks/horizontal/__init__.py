"""Comparison of horizontal methods on one task, and with another simulator; see `benchmarks.horizontal.__main__`."""
