"""Recorded conversations with a real broker, played against this package's coordinator."""
