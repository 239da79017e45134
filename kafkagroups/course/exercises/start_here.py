"""The exercises of lesson 00."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.segment_file import partition_for

EXERCISES = (
    # Exercise `next_record`: record 16 is the last record that was read. Which offset does the consumer commit?
    Exercise(
        name="next_record",
        correct=17,
        solution="next_record = 17",
        hints=(
            "A committed offset is the offset of the *next* record to read.",
            "The last record that was read has the offset 16. Which offset follows?",
        ),
        known_mistakes={
            "16 is the last record that was read; a committed offset is the offset of the next record": 16,
            "with 18, the group would not read record 17": 18,
        },
    ),
    Exercise(
        name="processed_twice",
        correct="B",
        solution='processed_twice = "B"   # the next consumer continues at 0',
        hints=(
            "At which offset does the next consumer of each group continue?",
            "Compare the committed offset with what was processed.",
        ),
        known_mistakes={
            "Group A continues at 17, and the records before 17 are processed once": "A",
            "Group C continues at 17. It never processes the records before 17, so it skips records": "C",
            "the letter is right; write a capital letter, as in the list": "b",
        },
    ),
    # Exercise `home_of_promo`: which partition stores the group promo?
    Exercise(
        name="home_of_promo",
        correct=37,
        solution='home_of_promo = kg.partition_for("promo")',
        hints=('kg.partition_for("billing") returned 9. Call the function with "promo".',),
        known_mistakes={
            "9 is the partition of the group billing": 9,
            "the group id is promo, in lower case": partition_for("Promo"),
        },
    ),
)
