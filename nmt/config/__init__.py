"""Options and recipes: how values are declared, checked, read and written."""
