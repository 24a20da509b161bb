"""The in-tree plugins, one module each, under upstream's names."""
