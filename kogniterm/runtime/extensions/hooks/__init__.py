"""Hooks: programs of the user and of trusted projects that run at events of a session."""
