"""Pure functions on text that several rooms need, each standing once."""
