"""From lines of text to translated lines."""
