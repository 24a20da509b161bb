"""Builders and fixtures for tests of schedulers and plugins."""
