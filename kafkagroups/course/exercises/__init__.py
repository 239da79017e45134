"""The exercises, one module per lesson: solutions, hints, cases and known mistakes."""
