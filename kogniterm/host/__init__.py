"""The machine: programs found in system folders, git, and files opened safely."""
