"""A shop to review."""


def total(numbers: list[int]) -> int:
    """Return the sum of the numbers."""
    return sum(numbers)
