"""A job's life beside faults: start, suspend and resume, complete, deadlines, time to live."""

from typing import Final

from rtj_operator.policy.lifecycle import complete, deadlines, finish, start, suspend
from rtj_operator.policy.plan import Rule
from rtj_operator.policy.shown.progress import mark_first_step

RULES: Final[tuple[Rule, ...]] = (
    deadlines.discount_unled_time,
    complete.record_late_faults,
    complete.complete,
    suspend.save_and_leave,
    start.begin,
    mark_first_step,
)
EFFECTS: Final = (finish.wind_down, finish.expire)

await_gang = deadlines.await_gang
gang_is_incomplete = deadlines.gang_is_incomplete
remember_epoch = deadlines.remember_epoch
wake_for_end = finish.wake_for_end
