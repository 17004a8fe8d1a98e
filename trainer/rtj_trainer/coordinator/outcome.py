"""How a run ended, if it has. Pure.

An exit code of 0 says little (stale, fenced and stopped launchers have it too), and NVRx's
last-member key alone does not say that the ranks reached the end: success needs both.
"""

from typing import Final, Literal

from rtj_api import names
from rtj_api.messages import MAX_TEXT, LauncherState, Outcome
from rtj_trainer.coordinator.progress import Progress
from rtj_trainer.nvrx.rendezvous import Rounds

# Marks of the last ranks may come a beat later than their end.
_SETTLE_SECONDS: Final = 2.0

Stop = Literal["none", "save", "now"]


def judge(
    stop: Stop,
    rounds: Rounds,
    progress: Progress,
    launchers: list[LauncherState],
    ranks: int,
    quiet_seconds: float,
) -> Outcome:
    """The outcome as far as it is certain.

    `launchers`: of the position holders. `ranks`: how many there should be. `quiet_seconds`: for
    how long no rank has lived and no launcher has run.
    """
    refused = next((s for s in launchers if _refused(s)), None)
    if rounds.finished and progress.round == rounds.closed and len(progress.done) >= ranks > 0:
        return Outcome(state="succeeded", message=f"all {ranks} ranks reached the end of training")
    if stop == "none" and refused is not None:
        return Outcome(state="refused", message=refused.tail[-MAX_TEXT:])
    if stop == "save" and len(progress.saved) >= ranks > 0:
        message = f"all {ranks} ranks saved and left at step {progress.highest_step}"
        return Outcome(state="saved", message=message)
    if stop != "none" and quiet_seconds > _SETTLE_SECONDS:
        saved = len(progress.saved)
        return Outcome(state="stopped", message=f"nothing trains any more; {saved} ranks saved")
    return Outcome()


def _refused(state: LauncherState) -> bool:
    return state.state == "exited" and state.exit_code == names.EXIT_DO_NOT_RESTART
