"""What both the verbs of the command line and the slash commands do with what is stored."""
