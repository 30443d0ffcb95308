"""Sessions that run without a user: repeated starts, and questions that wait for an answer."""
