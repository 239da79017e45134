"""The secret of this process: two random numbers that are part of every hash in the compiled engine.

Without a secret, somebody could prepare a log with many names of the same hash. A kernel would then compare each name
with all others, so the load would take quadratic time. The secret never changes the result of a load or its order.

A kernel receives the secret as an argument. Numba would cache a global constant for all processes.
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
