"""Models: a registry of provider names and the adapters behind `protocols.Model`."""
