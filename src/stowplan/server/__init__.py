"""The process's own HTTP endpoints: health and metrics."""
