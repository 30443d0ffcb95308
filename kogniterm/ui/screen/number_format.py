"""Numbers as people read them: durations, tokens, sizes. One spelling everywhere."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """0.4 s, 12 s, 3 min 05 s, 2 h 10 min; always short."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def tokens(count: int) -> str:
    """950, 12.3k, 1.2M."""
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1000:.1f}k"
    return f"{count / 1_000_000:.1f}M"


def size(count: int) -> str:
    """Bytes in powers of 1000: 512 B, 3.4 kB, 100.0 MB."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def amount(name: str, value: float) -> str:
    """So much of a budget, in its unit: 12, 3.4k, 12 s, $0.0123, 50.0 MB."""
    if name == "seconds":
        return duration(value)
    if name == "dollars":
        return f"${value:.4f}" if value < 1 else f"${value:.2f}"
    if name == "output_bytes":
        return size(int(value))
    return tokens(int(value))
