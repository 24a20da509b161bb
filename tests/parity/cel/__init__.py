"""CEL beside cel-go: results, errors and costs of the same expressions."""
