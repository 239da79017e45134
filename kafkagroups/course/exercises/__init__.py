"""The exercises, one module per lesson: solutions, hints, cases and known mistakes.

The class `Exercise` (exercise.py) explains these words. The correct function of most exercises calls the code of this
package, so it follows Kafka's rules. The name of a wrong function describes its mistake.
"""
