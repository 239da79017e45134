"""The exercises of the lessons: solutions, hints, cases and known mistakes.

In most exercises, the learner writes a function. A case is one tuple of arguments for this function. A known mistake is
a wrong function that learners often write, and a sentence for the learner, which is usually the correct rule. The name
of a wrong function says what the function does wrong.

Most correct functions call the code of this package, so they follow Kafka's rules.
"""
