"""Words of two languages: lists of them, lexicons and links between tokens."""
