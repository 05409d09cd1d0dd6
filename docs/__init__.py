"""Documents, and the scripts that make them."""
