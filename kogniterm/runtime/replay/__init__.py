"""Playing a recorded session again without its provider and executor."""
