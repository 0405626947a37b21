"""Text to metrics."""
