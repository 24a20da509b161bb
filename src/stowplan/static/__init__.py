"""Static placement: `stowplan static`, and the commands that manage pins."""
