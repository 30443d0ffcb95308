"""The analysis of a parsed command: its programs, paths and data flow."""
