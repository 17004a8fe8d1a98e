"""What runs in the job's pods: agent, coordinator, and the helper inside the training processes."""
