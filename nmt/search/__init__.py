"""From source token ids to translations: beam search, sampling, constraints."""
