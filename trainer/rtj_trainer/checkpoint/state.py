"""What a checkpoint holds: model, optimizer, step, position in the data, random numbers."""

from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load

from rtj_trainer.checkpoint.folder import Checkpoint


class HasState(Protocol):
    """Gives and takes its state as plain values, as torch's modules and data loaders do."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class TrainingState:
    """All that changes while training, and the number of steps completed."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: HasState
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.data = data
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        """References, not copies: to be staged before training goes on."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "progress": {"step": self.step},
            "data": self.data.state_dict(),
            "random": {f"rank-{dist.get_rank()}": _random_state()},
        }

    def load(self, checkpoint: Checkpoint, group: dist.ProcessGroup) -> None:
        """Take over a checkpoint, also of another world size, but then without random numbers.

        Raises CheckpointException on all ranks alike when one of them cannot read it.
        """
        state = self.state_dict()
        if checkpoint.world_size != dist.get_world_size():
            del state["random"]
        load(state, storage_reader=FileSystemReader(checkpoint.path), process_group=group)
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step = state["progress"]["step"]
        self.data.load_state_dict(state["data"])
        for random in state.get("random", {}).values():
            _set_random_state(random)


def _random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
