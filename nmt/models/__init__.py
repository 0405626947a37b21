"""Batches to log-probabilities."""
