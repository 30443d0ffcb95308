"""Clients of the model providers, and the mapping of their errors."""
