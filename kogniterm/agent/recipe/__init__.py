"""Recipes: plans with parameters, and the graph that runs them."""
