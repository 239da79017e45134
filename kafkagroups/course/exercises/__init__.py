"""The exercises, a module per lesson: solutions, hints, cases and known mistakes."""
