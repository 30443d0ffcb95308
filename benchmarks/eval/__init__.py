"""Public table of terminal tasks, and the set-ups measured on it."""
