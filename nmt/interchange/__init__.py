"""Models of other toolkits."""
