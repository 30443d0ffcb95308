"""What programs do, one line each, and handlers for those that need more than a line."""
