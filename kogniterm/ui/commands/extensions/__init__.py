"""Slash commands about what the user and projects add: skills and their like."""
