"""A session at work: its turns, the services they use, and what the user interfaces share."""
