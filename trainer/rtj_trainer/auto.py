"""Beats for scripts that know nothing of us: each optimizer step is a step of the training.

Installed in every rank that starts warm; `import rtj_trainer.auto` does it in others. A script
that says anything itself, by `rtj_trainer.beat` or `phase`, is left to its own words. RTJ_AUTO=0
turns it off.
"""

import os
from typing import TYPE_CHECKING, Any, Final

from rtj_trainer import rank

if TYPE_CHECKING:
    import torch

_ENV_OFF: Final = "RTJ_AUTO"


class _StepCounter:
    """Steps completed: Adam's own count, which comes back with a checkpoint, else one a call."""

    def __init__(self) -> None:
        self.steps = 0

    def __call__(
        self, optimizer: "torch.optim.Optimizer", args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if rank.speaks_for_itself():
            return
        counted = _own_count(optimizer)
        self.steps = self.steps + 1 if counted is None else max(self.steps, counted)
        rank.beat_unasked(self.steps)


def install() -> None:
    """Beat after each step of any optimizer, in a job and unless turned off."""
    if os.environ.get(_ENV_OFF) == "0" or rank.current() is None:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_StepCounter())


def _own_count(optimizer: "torch.optim.Optimizer") -> int | None:
    """The optimizer's count of its steps, unless it has none or asking would wait for a GPU."""
    state: dict[str, Any] = next(iter(optimizer.state.values()), {})
    step = state.get("step")
    if step is None or getattr(step, "is_cuda", False):
        return None
    return int(step)


install()
