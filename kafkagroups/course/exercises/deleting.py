"""Exercises of lesson 09: the tombstones of a deleted group, expired offsets, offsets that are gone on Monday."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.expiration import EXPIRED_EXERCISE

EXERCISES = (
    # Exercise `records_of_dashboard`: how many records does the deletion of a simple group with two offsets write, in
    # 3.9.2 and in 4.3.1?
    Exercise(
        name="records_of_dashboard",
        correct=(2, 3),
        solution="records_of_dashboard = (2, 3)   # 4.3.1 also writes a tombstone for the group",
        hints=(
            "Each offset has one tombstone, with both coordinators.",
            "The generation of a simple group is 0. Which coordinator writes a tombstone for the group?",
        ),
        known_mistakes={
            "3.9.2 writes no tombstone for a group whose generation is 0": (3, 3),
            "4.3.1 writes a tombstone for the group, although the log has no group record": (2, 2),
            "It is the other way round: 4.3.1 writes the tombstone for the group": (3, 2),
        },
    ),
    EXPIRED_EXERCISE,
    # Exercise `weekend`: which of three groups loses its offsets from Friday to Monday, with a retention of one day?
    Exercise(
        name="weekend",
        correct="dashboard",
        solution='weekend = "dashboard"',
        hints=(
            "Two of the three groups have a member, at least at night. When does the retention of these groups start?",
            "A consumer that assigns its partitions itself is never a member, no matter how often it commits.",
        ),
        known_mistakes={
            "mailer is Stable all the time and reads its topic: since Kafka 2.1 its offsets do not expire": "mailer",
            "nightly is never Empty for a whole day: a member joins each night": "nightly",
        },
    ),
)
