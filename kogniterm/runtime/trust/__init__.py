"""Trust in a workspace: what it allows, and what is read once it is given."""
