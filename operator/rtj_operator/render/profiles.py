"""Instance profiles: what an instance type means for a worker. The figures are data, here read.

HyperPod labels its nodes with `ml.` before the instance type; a profile answers to both names.
"""

import functools
import tomllib
from importlib import resources
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from rtj_api.spec import ResilientTrainingJobSpec

HYPERPOD_PREFIX: Final = "ml."
CPU: Final = "cpu"

Count = Annotated[int, Field(ge=0, le=128)]
# As Kubernetes writes them; checked at load, so that a bad figure fails at start and not in a pod.
Quantity = Annotated[str, Field(pattern=r"^([0-9]+(m|Mi|Gi)?)?$")]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Family(_Data):
    """What instance types have in common."""

    device: Literal["cuda", "cpu"]
    # Value of the label kubernetes.io/arch that the machines have; "" for any.
    arch: str
    env: dict[str, str]
    env_in_process: dict[str, str]


class Instance(_Data):
    """One instance type as the data file says it."""

    family: str
    gpus: Count
    efa: Count
    hugepages_2mi: Quantity
    cpu: Quantity
    memory: Quantity
    shm: Quantity


class _File(_Data):
    families: dict[str, Family]
    instances: dict[str, Instance]


class Profile(_Data):
    """One instance type, its family looked up."""

    name: str
    instance: Instance
    family: Family

    @property
    def device(self) -> Literal["cuda", "cpu"]:
        """Where the ranks compute."""
        return self.family.device

    @property
    def node_label_values(self) -> tuple[str, ...]:
        """Values of node.kubernetes.io/instance-type that match; empty: any node."""
        if self.name == CPU:
            return ()
        return (self.name, f"{HYPERPOD_PREFIX}{self.name}")

    @property
    def processes_per_node(self) -> int:
        """Ranks of a worker when the spec names no number: one per GPU, one on a CPU."""
        return self.instance.gpus or 1


def processes_per_node(spec: ResilientTrainingJobSpec, profile: Profile) -> int:
    """Ranks of a worker."""
    return spec.processes_per_node or profile.processes_per_node


def find(instance_type: str) -> Profile | None:
    """The profile of an instance type, with or without `ml.`; None if unknown."""
    name = instance_type.removeprefix(HYPERPOD_PREFIX)
    data = _load()
    if name not in data.instances:
        return None
    instance = data.instances[name]
    return Profile(name=name, instance=instance, family=data.families[instance.family])


def known() -> tuple[str, ...]:
    """All instance types that have a profile."""
    return tuple(_load().instances)


def unknown_instance_type(instance_type: str) -> str:
    """What to tell a user whose instance type has no profile."""
    return (
        f"spec.instanceType: {instance_type!r} has no profile; write one of "
        f"{', '.join(known())} (with or without `{HYPERPOD_PREFIX}`)"
    )


@functools.cache
def _load() -> _File:
    text = resources.files(__package__).joinpath("profiles.toml").read_text(encoding="utf-8")
    return _File.model_validate(tomllib.loads(text))
