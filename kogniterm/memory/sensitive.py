"""What must never become a memory: passwords, keys and tokens, by their usual shapes.

Input is redacted before it reaches memory; this is the second lock on the same door, for texts
that come from elsewhere (the library face, imports, model output).
"""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)?[-_]?[A-Za-z0-9_-]{16,}
    | \bAIza[0-9A-Za-z_-]{30,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abprs]-[A-Za-z0-9-]{10,}
    | \bhf_[A-Za-z0-9]{20,}
    | \bnpm_[A-Za-z0-9]{20,}
    | \bpypi-[A-Za-z0-9_-]{20,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:password|passwd|passphrase|contraseña|api[ _-]?key|secret(?:[ _-]?key)?|"
    r"access[ _-]?token|auth[ _-]?token|bearer|pin)\b"
    r"(?:\s+(?:is|es|=|:)\s*|\s*[=:]\s*))(?P<value>[\"']?[^\s\"',;]{4,}[\"']?)",
    re.IGNORECASE,
)
MASK = "[secret]"


def mask(text: str) -> str:
    """`text` with everything that looks like a secret replaced by `[secret]`."""
    return _ASSIGNED.sub(rf"\g<name>{MASK}", _SECRET.sub(MASK, text))


def holds_secret(text: str) -> bool:
    """Whether something in `text` looks like a secret, or is the mark of a redacted one."""
    return mask(text) != text or "[secret" in text
