"""The figures of the lessons: pictures that the reader moves, one module for each figure."""
