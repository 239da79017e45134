"""The secret of this process: two random numbers that are part of every hash in the compiled engine.

Without a secret, a log could contain many names that all have the same hash. To find one of these names in a hash
table, a kernel would compare all of them, so the load would take quadratic time. Each process has its own secret, so
nobody can prepare these names. No result of a load depends on the secret, and neither does the order of a result.

A kernel receives the secret as an argument, because numba stores global constants in the machine code that it caches.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SECRET_BYTES = 16


def create_secret(random_bytes: bytes) -> Array:
    """Return a secret that is made from SECRET_BYTES random bytes. Equal bytes give equal secrets."""
    return np.frombuffer(random_bytes, np.uint64, SECRET_BYTES // 8)


_secret = create_secret(os.urandom(SECRET_BYTES))


def process_secret() -> Array:
    """Return the secret of this process. It is an array of two uint64."""
    return _secret
