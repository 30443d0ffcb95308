"""The verb for many machines at once."""
