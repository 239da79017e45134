"""CRC-32C, the checksum of record batches and of snapshot files.

The package crc32c is imported at the first call, because its import takes longer than all other imports of this folder.
The native engine computes its checksums itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def crc32c(data: Any, crc: int = 0) -> int:
    """Return the CRC-32C of the data of `crc` and the bytes of the buffer `data` after it."""
    return _import_crc32c()(data, crc)


@cache
def _import_crc32c() -> Callable[[Any, int], int]:
    from crc32c import crc32c as compute

    return compute
