"""Lines to lines."""
