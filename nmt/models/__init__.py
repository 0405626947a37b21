"""The models: from batches to log-probabilities."""
