"""Execution: runs commands in a real PTY, one session leader each."""
