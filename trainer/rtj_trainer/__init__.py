"""What runs in the job's pods: agent, coordinator, and the helper inside the training processes.

A training script needs one line a step, `rtj_trainer.beat(step=...)`; see `rtj_trainer.rank`.
"""

from rtj_trainer.rank import beat, done, leave, leave_wanted, life, phase, should_leave

__all__ = ["beat", "done", "leave", "leave_wanted", "life", "phase", "should_leave"]
