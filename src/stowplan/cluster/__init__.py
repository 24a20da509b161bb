"""What the scheduler believes about the cluster."""
