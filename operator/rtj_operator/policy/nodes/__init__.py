"""Nodes that a job keeps off, and those that are tainted for everybody."""

from typing import Final

from rtj_operator.policy.nodes import taints

EFFECTS: Final = (taints.taints, taints.releases)

confirm = taints.confirm
release = taints.release
