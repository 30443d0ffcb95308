"""Warm starts: a small server per user keeps the libraries loaded and forks sessions from it.

The process that the shell started (`warm_client`) belongs to the shell's job: it hands its
descriptors and environment over, passes signals on, stops with its job, and ends with the status of
its session. The server (`warm_server`) compares the client with itself and forks the session
(`warm_session`), which reaches the client's terminal through `host.terminal_owner`. The session
does not need the server, and dies with its client. Whatever is unusual is a plain start.
"""
