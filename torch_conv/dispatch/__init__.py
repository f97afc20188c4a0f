"""Shared by all folders: the loaded library, the table of operators, queries, and checks of arguments."""
