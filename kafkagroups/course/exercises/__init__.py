"""The exercises of the lessons: solutions, hints, cases and known mistakes.

Most correct functions call the code of this package, so they follow Kafka's rules.
"""
