"""A machine-translation toolkit: prepare, train, average, translate, score."""

__version__ = "0.1.0"
