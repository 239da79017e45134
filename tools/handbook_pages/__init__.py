"""The pages of the handbook, one module for each page or family of pages. tools/handbook.py writes them."""
