"""Replay of a recorded session, without its provider and its user."""
