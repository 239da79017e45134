"""The exercises of the lessons: solutions, hints, cases and known mistakes.

In most exercises, the learner writes a function. A known mistake is a wrong function that learners often write, by the
sentence that the learner then sees, usually the correct rule. The name of a wrong function says what it does wrong.

Most correct functions call the code of this package, so they follow Kafka's rules.
"""
