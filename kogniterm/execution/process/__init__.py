"""Processes and terminals: supervisor, PTY, jobs and results."""
