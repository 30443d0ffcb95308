"""Drawing of answers, commands, plans, progress and the status line."""
