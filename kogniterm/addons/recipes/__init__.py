"""Recipes: what worked, kept as a graph of nodes and run again with other inputs."""
