"""Finding facts in what was said, with rules and with a model."""
