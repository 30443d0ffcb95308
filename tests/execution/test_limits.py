"""Resource limits between shells, where raising one is not everybody's to try."""

from __future__ import annotations

import pytest

from kogniterm.execution.limits import commands


def limits(soft: str, hard: str) -> bytes:
    """What the kernel says of a process with these limits of open files."""
    heads = ("Limit", "Soft Limit", "Hard Limit", "Units")
    rows = (heads, ("Max open files", soft, hard, "files"))
    return "".join(f"{a:<26}{b:<21}{c:<21}{d:<10}\n" for a, b, c, d in rows).encode()


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [
        (("10", "20"), ("30", "40"), ["-H -n 40", "-S -n 30"]),
        (("10", "20"), ("unlimited", "unlimited"), ["-H -n unlimited", "-S -n unlimited"]),
        (("30", "unlimited"), ("10", "20"), ["-S -n 10", "-H -n 20"]),
        (("10", "20"), ("10", "20"), []),
    ],
)
def test_a_soft_limit_is_never_above_its_hard_one_on_the_way(
    before: tuple[str, str], after: tuple[str, str], flags: list[str]
) -> None:
    lines = commands(limits(*before), limits(*after)).decode().splitlines()
    assert lines == [rf"\builtin ulimit {flag}" for flag in flags]
