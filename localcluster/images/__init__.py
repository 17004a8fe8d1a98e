"""Images without a registry: built by buildah, laid into each node's containerd."""
