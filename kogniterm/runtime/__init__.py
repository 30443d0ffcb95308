"""The runtime: the one loop, its events, and the place where settings become objects."""
