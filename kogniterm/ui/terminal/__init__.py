"""The user's terminal itself: what it sends and can do, and how programs get it."""
