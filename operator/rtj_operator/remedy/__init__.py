"""What can be done to a node, one file a provider."""
