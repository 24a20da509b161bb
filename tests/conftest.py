"""Fixtures that every suite may ask for."""

pytest_plugins = ["tests.controlplane_fixtures", "tests.embedded_fixtures"]
