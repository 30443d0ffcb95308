"""The sandbox around a command: bubblewrap, Landlock and seccomp."""
