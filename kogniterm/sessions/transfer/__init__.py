"""Sessions as JSON lines, Markdown, an outline or a bug report."""
