"""The demo: two datasites on one machine train FedCVT on public data; its story, its twins, its report."""
