"""KogniTerm: a terminal agent that plans, asks, runs commands in a real PTY, and remembers."""

__version__ = "0.1.0"
