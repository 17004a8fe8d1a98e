"""PID 1 of a worker pod: makes the coordinator's directive true and tells how the ranks are."""
