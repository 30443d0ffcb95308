"""Rules of programs: handlers for those that need more than a line of a table."""
