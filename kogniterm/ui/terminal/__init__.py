"""The user's terminal itself: what it sends and can do, and how it is lent to programs."""
