"""Approval: pure rules that read a command and say what it would do."""
