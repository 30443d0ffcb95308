"""Helpers that several test rooms share."""
