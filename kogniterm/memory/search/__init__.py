"""Search over facts by words and by vectors."""
