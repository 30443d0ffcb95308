"""Use cases that the verbs of the command line share with the slash commands."""
