"""The process's own HTTP face: health and metrics."""
