"""Whole numbers in the texts of options."""

from __future__ import annotations

import re

from kafkagroups.errors import UsageError

MAX_DIGITS = 20
"""How many digits a number may have. The largest int64, which is Kafka's type of offsets and times, has 19 digits.
Python refuses numbers with thousands of digits."""


def parse_whole_number(text: str) -> int:
    """Return the number that a text contains. Raises UsageError if the text contains another text or a longer number.

    >>> parse_whole_number("-12")
    -12
    """
    if re.fullmatch(f"[-+]?[0-9]{{1,{MAX_DIGITS}}}", text):
        return int(text)
    found = repr(text)
    if len(text) > 2 * MAX_DIGITS:
        found = f"a text of {len(text)} characters"
    raise UsageError(f"expected a whole number of at most {MAX_DIGITS} digits, found {found}")
