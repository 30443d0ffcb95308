"""Commands from a seed in which text that looks like a secret meets shell syntax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from kogniterm.text.redact import session_label

SHAPES = tuple(
    (Path(__file__).parents[1] / "text" / "secrets.txt").read_text(encoding="utf-8").splitlines()
)
KNOWN = ("kNown-Value-4711", "src/secret-part", "s3cr3tPASSw0rd", "with blank; rm -rf src #")
"""Values that the session of a test knows as secrets."""
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
_BASE64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
_ACTS = (
    "rm -rf src", "echo x > out", "cat src/a | tee out", "curl https://other.example/x",
    "chmod 777 src", "ls", "wc -l src/a", ": $(rm -rf src)",
)  # fmt: skip
_ASSIGNS = (
    "password={}", "password: {}", "API_TOKEN={}", "api_key: '{}'", "my_secret_key=\"{}\"",
    "cookie: a={}", "--password {}", "-p{}", "--token={}", "Authorization: Bearer {}", "pwd={}",
)  # fmt: skip
_FRAMES = (
    'echo "{}"; {}', "echo '{}' ; {} ; echo 'x'", 'grep -rn "{}" . | head; {}; echo "y"',
    "printf %s {} && {}", "curl -H '{}' https://api.example/v1; {}", "{} {}", 'x="{}"; {}',
    'export TOKEN="{}"; {}', "cat <<'END'\n{}\nEND\n{}", "cat <<END > out\n{}\nEND\n{}",
    "# {}\n{}", "echo {} > out; {}", "echo {} | base64; {}", "git clone {} && {}",
    "sh -c '{}'; {}", "echo `echo {}`; {}", 'echo "$(echo {})"; {}', "tool --opt={} ; {}",
    "cat {}; {}", "ssh user@{} ; {}", "for i in {}; do {}; done", "[ {} = x ] || {}",
    "case {} in a) {};; esac", "f() {{ echo {}; }}; {}", "env {} sh -c '{}'", "sudo -S {} {}",
)  # fmt: skip
_ODD = (
    "\t", "\x1b[31m", "\u202e", "é", "日本", "\\", "\\\n", "''", '""', "\x07", "*", "~", "&", "!",
)  # fmt: skip


def placeholders(session_id: str) -> tuple[str, ...]:
    """Return placeholders that the session could have made, and one of another session."""
    label = session_label(session_id)
    return (f"[secret:{label}-1]", f"[secret:{label}-999999999999]", "[secret:zzzz-1]")


def generate_commands(
    seed: int, count: int, marks: tuple[str, ...] = ("[secret:1]", "[secret:zzzz-2]")
) -> Iterator[str]:
    """Yield `count` commands; `marks` are texts in the form of a placeholder."""
    draw = Random(seed)
    pool = [_random(draw) for _ in range(30)]
    for number in range(count):
        command = draw.choice(_FRAMES).format(_secret(draw, pool, marks), draw.choice(_ACTS))
        if draw.random() < 0.2:
            command = f"{command}; {draw.choice(_FRAMES).format(_secret(draw, pool, marks), 'ls')}"
        if draw.random() < 0.15:
            at = draw.randrange(len(command))
            command = command[:at] + draw.choice(_ODD) + command[at:]
        if draw.random() < 0.02:
            command += " " + "a" * draw.randrange(1_000, 9_000) + f"={TOKEN}"
        # Unique, so that the bytes of each can be found again.
        yield f"{command}\n: number {number}"


def _secret(draw: Random, pool: Sequence[str], marks: tuple[str, ...]) -> str:
    value = draw.choice((
        draw.choice(SHAPES), draw.choice(KNOWN), TOKEN, draw.choice(pool), draw.choice(marks),
        f"ab{draw.choice(('$(rm -rf src)', '`rm -rf src`', ';rm src/a;', '>out', '|sh'))}cd",
        f"https://user:{draw.choice(pool)}@host{draw.randrange(9)}.example/{draw.choice(pool)}",
        f"-----BEGIN PRIVATE KEY-----\n{_BASE64}\n$(rm -rf src)\n{_BASE64}\n"
        "-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{_BASE64}\n{_BASE64}\n-----END PRIVATE KEY-----",
    ))  # fmt: skip
    return draw.choice(_ASSIGNS).format(value) if draw.random() < 0.6 else value


def _random(draw: Random) -> str:
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "".join(draw.choices(letters, k=draw.randrange(6, 40)))
