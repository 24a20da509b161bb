"""Static placement for people who run it: `stowplan static`, and living with pins."""
