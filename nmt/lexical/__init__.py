"""Words of two languages: terms, lemmas, lexicons and links."""
