"""Other libraries' functions under their own names and conventions, for a change of an import."""
