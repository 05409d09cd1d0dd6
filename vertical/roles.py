"""The two roles of every vertical computation, by the names under which their programs reach each other."""

ACTIVE, PASSIVE = "active", "passive"
"""The party with labels, and the party with features only."""
