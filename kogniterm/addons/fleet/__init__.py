"""Sessions from a queue: tasks that wait in the shared database, and the workers that do them."""
