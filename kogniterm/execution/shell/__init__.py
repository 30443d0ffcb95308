"""Shell state: captured after a command, restored for the next one."""
