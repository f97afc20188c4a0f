"""The textbook studies: their tables, the columns of each, and the cases that a table measures."""
