"""The import of what was set up for another terminal agent: found, planned, shown, written."""
