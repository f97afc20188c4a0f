"""The table of operators and the consumers that need no more than it."""
