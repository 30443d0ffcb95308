"""Commands about tasks in a queue and on several machines."""
