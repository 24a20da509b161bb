"""Counted work: regressions of the hot path that show without a clock."""
