"""Code that exists only for speed."""
