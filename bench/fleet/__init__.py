"""A thousand workers on two cores: everything is real but the kubelets and the ranks.

etcd, API server and scheduler are the pinned programs, the operator and the job's coordinator are
the real processes, the agents speak their real link. kwok plays the kubelets, with pod addresses of
127.64.0.0/10, so that the operator and the agents reach the coordinator at its pod's address. See
docs/fidelity.md.
"""
