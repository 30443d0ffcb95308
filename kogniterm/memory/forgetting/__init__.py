"""Removing what was asked to be forgotten, and the proof of it."""
