"""Whole numbers in the texts of options."""

from __future__ import annotations

import re

from kafkagroups.errors import UsageError

MAX_DIGITS = 20
"""The largest number of digits. The largest offset or time in Kafka (an int64) has 19 digits."""


def parse_whole_number(text: str) -> int:
    """Return the number that a text contains. Raises UsageError if the text is not a whole number or is too long.

    >>> parse_whole_number("-12")
    -12
    """
    if re.fullmatch(f"[-+]?[0-9]{{1,{MAX_DIGITS}}}", text):
        return int(text)
    found = repr(text)
    if len(text) > 2 * MAX_DIGITS:
        found = f"a text of {len(text)} characters"
    raise UsageError(f"expected a whole number of at most {MAX_DIGITS} digits, found {found}")
