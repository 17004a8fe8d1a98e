"""What runs in the job's pods: agent, coordinator, and the helper inside the training processes.

A training script needs one line a step, `rtj_trainer.beat(step=...)`; see `rtj_trainer.rank`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtj_trainer.rank import beat, done, leave, leave_wanted, life, phase, should_leave

__all__ = ["beat", "done", "leave", "leave_wanted", "life", "phase", "should_leave"]


def __getattr__(name: str) -> Any:
    """Loads the helper when it is used: the agent must handle signals before anything is loaded."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rtj_trainer import rank

    return getattr(rank, name)
