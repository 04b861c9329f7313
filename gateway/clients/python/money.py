"""Amounts: decimal text on the wire, Decimal or whole minor units (int) to compute with, never a float."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal


def to_minor(amount: str) -> int:
    """`"12.5"` as 1250. Raises ValueError where the text is no amount."""
    match = re.fullmatch(r"(-?)([0-9]+)(?:\.([0-9]{1,2}))?", amount)
    if not match:
        raise ValueError(f"not an amount: {amount!r}")
    minor = int(match[2] + (match[3] or "").ljust(2, "0"))
    return -minor if match[1] else minor


def from_minor(minor: int) -> str:
    """1250 as `"12.50"`."""
    whole, cents = divmod(abs(minor), 100)
    return f"{'-' if minor < 0 else ''}{whole}.{cents:02}"


def to_decimal(amount: str) -> Decimal:
    """`"12.50"` as a Decimal."""
    return Decimal(to_minor(amount)).scaleb(-2)


def total(amounts: Iterable[str]) -> str:
    """The sum of amounts of one currency."""
    return from_minor(sum(map(to_minor, amounts)))
