"""Shared by all folders: the library, the table of operators and its vmap rules, queries, checks of arguments."""
