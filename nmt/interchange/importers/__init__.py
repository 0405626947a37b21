"""Import of models of other toolkits."""
