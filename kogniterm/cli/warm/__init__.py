"""Warm starts: a small server per user keeps the libraries loaded and forks sessions from it.

The process that the shell started stays (`warm_client`): it belongs to the shell's job and hands
over its descriptors, environment and folder. The server (`warm_server`) forks a keeper for each
client; the keeper checks the client (`peer_state`), forks the session (`warm_session`), and passes
signals, stops and the exit status between the two. The client never needs the server: whatever is
unusual ends in a plain start.
"""
