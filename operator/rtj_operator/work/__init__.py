"""The loop: queue, observe, act."""
