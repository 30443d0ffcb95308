"""Copies of files before a command, and bringing them back."""
