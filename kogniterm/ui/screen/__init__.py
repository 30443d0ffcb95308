"""Everything drawn: answers, commands, plans, progress and the status line."""
