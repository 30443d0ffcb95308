"""Forgetting across every store that holds the words of the user."""
