"""Exercises of lesson 07: a duplicate member.

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise

EXERCISES = (
    # Exercise `copied`: which group instance id do two processes use? The learner sees the group records that
    # `course.run_duplicate_static_member` writes.
    Exercise(
        name="copied",
        correct="van-2",
        solution='copied = "van-2"',
        hints=(
            "The records have the same generation, so there was no rebalance. What differs between two records?",
            "Which instance id has a new member id in each of these records?",
        ),
        known_mistakes={
            "the member id of van-1 is the same in every record: no other process joins as van-1": "van-1",
            "van-3 joined later, but only once, and its member id does not change": "van-3",
        },
    ),
)
