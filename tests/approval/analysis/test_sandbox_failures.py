"""Recognition of output that looks as if the sandbox stopped a command."""

from __future__ import annotations

import pytest

from kogniterm.approval import sandbox_failure


@pytest.mark.parametrize(
    ("output", "widen"),
    [
        ("curl: (6) Could not resolve host: pypi.org", "network"),
        ("touch: cannot touch '/etc/x': Read-only file system", "write"),
        ("mkdir: cannot create directory '/opt/y': Permission denied", "write"),
        ("OSError: [Errno 30] Read-only file system: '/etc/x'", "write"),
        ("PermissionError: [Errno 13] Permission denied: '/var/x'", "write"),
        ("curl: (7) Failed to connect to localhost port 80: Connection refused", "network"),
        ("W: chown of directory /var/x failed - Setup (30: Read-only file system)", "write"),
        ("error: could not write config file .git/config: Device or resource busy", "write"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "process"),
        ("Failed to connect to bus: Operation not permitted", "process"),
        ("error connecting to /tmp/tmux-0/default (Operation not permitted)", "process"),
        ("PermissionError: [Errno 1] Operation not permitted", "process"),
        ("    sl = SemLock(…)\nPermissionError: [Errno 13] Permission denied", "process"),
        ("OSError: out of pty devices", "process"),
        ("error: test failed", None),
    ],
)
def test_sandbox_failures_are_recognised(output: str, widen: str | None) -> None:
    failure = sandbox_failure(output, 1)
    assert (failure.widen if failure else None) == widen


@pytest.mark.parametrize(
    ("output", "widen"),
    [
        ("curl: (6) Could not resolve host: pypi.org\ndone", "network"),
        ("OSError: [Errno 30] Read-only file system: '/etc/x'\nignored", "write"),
        ("3 passed: mkdir: cannot create directory '/opt/y': Permission denied", None),
        ("Connection refused is an error\n3 passed", None),
        ("curl: (7) Failed to connect to localhost port 80: Connection refused\nready", None),
    ],
)
def test_status_0_counts_only_with_what_the_sandbox_alone_explains(
    output: str, widen: str | None
) -> None:
    failure = sandbox_failure(output, 0)
    assert (failure.widen if failure else None) == widen


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ("touch: cannot touch '../up.txt': Read-only file system", "../up.txt"),
        ("bash: line 1: /etc/x: Read-only file system", "/etc/x"),
        ("mkdir: cannot create directory '/opt/y': Permission denied", "/opt/y"),
        ("OSError: [Errno 30] Read-only file system: '/etc/x'", "/etc/x"),
        ("Error: ENOENT: no such file or directory, mkdir '/etc/x/y'", "/etc/x/y"),
        ("error: could not write config file .git/config: Device or resource busy", ".git/config"),
        ("W: chown of directory /var/x failed - Setup (30: Read-only file system)", "/var/x"),
        ("E: Could not open lock file /var/lib/x - open (13: Permission denied)", "/var/lib/x"),
        ("OSError: [Errno 16] Device or resource busy: 'x' -> '.git/config'", "x"),
    ],
)
def test_the_file_is_named_and_not_the_program(output: str, path: str) -> None:
    failure = sandbox_failure(output, 1)
    assert failure is not None
    assert failure.target == path
    assert path in str(failure.text)


@pytest.mark.parametrize(
    ("command", "output", "host"),
    [
        ("curl https://a.example.org/x", "Could not resolve host: pypi.org", "pypi.org"),
        ("python3 -c 'get(\"https://a.example.org/x\")'", "", "a.example.org"),
        ("git clone https://me:word@git.example.org/x", "", "git.example.org"),
        ("pip download idna --retries 0", "ERROR: No idna (from versions: none)", ""),
        ("pip download -i https://p.example.org/simple idna", "", "p.example.org"),
        ("make fetch", "", ""),
        ("apt-get install x", "Temporary failure resolving 'deb.example.org'", "deb.example.org"),
    ],
)
def test_the_host_is_named_where_output_or_command_tell_it(
    command: str, output: str, host: str
) -> None:
    told = output or "[Errno -3] Temporary failure in name resolution"
    failure = sandbox_failure(told, 1, command)
    assert failure is not None
    assert failure.target == host
    assert f"Could not reach {host or 'the network'}:" in str(failure.said)


@pytest.mark.parametrize(
    ("output", "host"),
    [
        ("curl: (7) Failed to connect to ::1 port 80: Couldn't connect to server", "::1"),
        ("Error: connect ECONNREFUSED 127.0.0.1:5432", "127.0.0.1"),
        (
            "HTTPConnectionPool(host='localhost', port=8765): Max retries exceeded with url: / "
            "(Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at "
            "0x7f0a1b2c3d4e>: Failed to establish a new connection: [Errno 111] Connection "
            "refused'))",
            "localhost",
        ),
    ],
)
def test_a_refused_connection_to_loopback_is_no_missing_network(output: str, host: str) -> None:
    failure = sandbox_failure(output, 1)
    assert failure is not None
    assert failure.target == host
    assert f"Could not connect to {host}: nothing listens there in the sandbox" in str(failure.said)
    assert "no network" not in str(failure.said)


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("OSError: out of pty devices", "a new terminal"),
        ("script: failed to create pseudo-terminal: Permission denied", "a new terminal"),
        ("    sl = SemLock(…)\nPermissionError: [Errno 13] Permission denied", "shared semaphore"),
    ],
)
def test_a_terminal_or_semaphore_that_was_refused_is_named(output: str, what: str) -> None:
    failure = sandbox_failure(output, 1)
    assert failure is not None
    assert what in str(failure.said)
