"""A model and text to text."""
