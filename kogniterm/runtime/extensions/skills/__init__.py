"""Skills in the Agent Skills format: finding, accepting, offering and using them."""
