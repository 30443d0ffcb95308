"""The profile of a project, read from its files."""
