"""Trust: which files of a project may have an effect, and what the user trusted of them."""
