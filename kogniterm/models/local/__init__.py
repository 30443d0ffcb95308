"""The embedded local model: small weights that run in this process, without key or network."""
