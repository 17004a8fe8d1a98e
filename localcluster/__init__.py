"""A real Kubernetes cluster on one machine, without Docker and without an image registry.

One control plane and several nodes; each node is a network namespace with its own containerd,
kubelet and kube-proxy, so that a node can be killed, frozen or cut off like a real one.
"""
