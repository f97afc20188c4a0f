"""What all folders share: the loaded library, the table of operators, questions to it, checks of arguments."""
