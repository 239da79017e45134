"""The slides of a lesson: how cells become slides, and the template of a deck. tools/slides.py writes the files."""
