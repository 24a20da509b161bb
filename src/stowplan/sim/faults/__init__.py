"""Fault simulation: whole schedulers in virtual time under seeded faults."""
