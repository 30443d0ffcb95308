"""The user interface: the prompt-toolkit REPL and everything a user sees."""
