"""The exercises of the lessons: solutions, hints, cases and known mistakes.

Most correct functions call the code of this package, so they follow Kafka's rules. A known mistake is a wrong function
that learners often write, by the sentence that the learner then sees. Its name says what it does wrong.
"""
