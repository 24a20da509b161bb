"""What waits to be scheduled, and why."""
