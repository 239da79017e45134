"""The pictures at the heads of the lessons: each function returns one picture. tools/pictures.py writes the files."""
