"""The smallest and the largest numbers of Java's types int (32 bits) and long (64 bits)."""

from __future__ import annotations

MIN_INT32 = -(2**31)
MAX_INT32 = 2**31 - 1
MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1
