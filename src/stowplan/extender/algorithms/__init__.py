"""The algorithms that come with Stowplan, one module each."""
