"""Text to figures."""
