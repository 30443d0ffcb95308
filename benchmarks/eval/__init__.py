"""The public table of terminal tasks, and what solves how many of them."""
