"""Project memory: the profile of a folder, the scan that finds it, and the files it reads."""
