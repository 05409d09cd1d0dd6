"""The command line, one module per role."""
