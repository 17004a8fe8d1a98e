"""NVRx's in-process restart around a training function, nested under ft_launcher.

An exception in one rank restarts the training function in all ranks, and the processes live on.
All else is ft_launcher's: as soon as a rank is missing the wrapper gives up, because with a rank
less there is no training to restart (`min_world_size` is the whole world).

Every rendezvous of a process, the wrapper's and each iteration's process group, uses the one
store that rank 0 hosts on MASTER_PORT, told apart by prefix. No port is guessed, so jobs that
share a host do not meet.
"""

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch.distributed import (
    HashStore,  # pyright: ignore[reportPrivateImportUsage]
    PrefixStore,  # pyright: ignore[reportPrivateImportUsage]
    TCPStore,  # pyright: ignore[reportPrivateImportUsage]
)

from rtj_api import names
from rtj_trainer import gloo, rank

if TYPE_CHECKING:
    from nvidia_resiliency_ext.inprocess import Wrapper

# A process that was restarted in itself this often gets replaced.
_MAX_ITERATIONS: Final = 10
# A main thread that runs Python code for longer than this is interrupted wherever it is.
_SETTLE_SECONDS: Final = 1.0
_SETTLE_POLL_SECONDS: Final = 0.005
_STORE_TIMEOUT: Final = timedelta(seconds=60)
# NVRx's own intervals here are up to a second.
_LEAST_SOFT_TIMEOUT: Final = 5.0
_TORCH_DISTRIBUTED: Final = Path(dist.__file__).parent


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long NVRx bears silence; its wrapper demands soft < hard < barrier."""

    process_group: timedelta
    soft: timedelta
    hard: timedelta
    heartbeat: timedelta
    barrier: timedelta

    def stretched(self, soft_timeout: float | None) -> "Timeouts":
        """All of them longer or shorter by one factor, so that their order stays."""
        if soft_timeout is None:
            return self
        if soft_timeout < _LEAST_SOFT_TIMEOUT:
            raise ValueError(
                f"soft_timeout={soft_timeout:g}: write {_LEAST_SOFT_TIMEOUT:g} seconds or more"
            )
        factor = soft_timeout / self.soft.total_seconds()
        values = (self.process_group, self.soft, self.hard, self.heartbeat, self.barrier)
        return Timeouts(*(value * factor for value in values))


def _timeouts(
    *, process_group: float, soft: float, hard: float, heartbeat: float, barrier: float
) -> Timeouts:
    seconds = (process_group, soft, hard, heartbeat, barrier)
    return Timeouts(*(timedelta(seconds=value) for value in seconds))


# gloo gives up a collective by itself, which must come before the wrapper's soft timeout. NCCL's
# watchdog kills the process, so there it must come last (NVRx's guide to in-process restart).
TIMEOUTS: Final = {
    "cpu": _timeouts(process_group=10, soft=15, hard=25, heartbeat=20, barrier=40),
    "cuda": _timeouts(process_group=600, soft=90, hard=180, heartbeat=60, barrier=300),
}
# What NVRx asks for on NCCL, unless the user says otherwise: NCCL's watchdog must not end the
# process for a failed collective, and an abort can hang in NVLink SHARP.
_ENVIRONMENT: Final = {"TORCH_NCCL_RETHROW_CUDA_ERRORS": "0", "NCCL_NVLS_ENABLE": "0"}
_BACKENDS: Final = {"cpu": "cpu:gloo", "cuda": "cpu:gloo,cuda:nccl"}


def device_type() -> str:
    """Either "cuda" or "cpu": what the job's environment says, else what is there."""
    return os.environ.get(names.ENV_DEVICE) or ("cuda" if torch.cuda.is_available() else "cpu")


def run[Result](train: Callable[[], Result], *, soft_timeout: float | None = None) -> Result:
    """Run `train` in all ranks with a process group, again and again until it returns in all.

    `train` finds torch.distributed initialised, and has to take up from the newest checkpoint.
    Raises what `train` raised when it is not to be tried again in this process.

    `soft_timeout`: seconds that the main thread may run no Python code, as in a barrier or in the
    first collective of many ranks, before all ranks restart; 90 on GPUs, 15 on CPU. After about
    twice that the process is killed. The other timeouts, the process group's too, change with it.
    """
    timeouts = TIMEOUTS[device_type()].stretched(soft_timeout)
    if os.environ.get(names.ENV_IN_PROCESS, "1") == "0" or "RANK" not in os.environ:
        return _run_once(train, timeouts)

    from nvidia_resiliency_ext.inprocess import CallWrapper

    def entered(call: CallWrapper | None = None) -> Result:
        assert call is not None  # filled in by the wrapper, which goes by the annotation
        return _run_iteration(train, call.iteration, timeouts)

    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # The wrapper collects garbage at each restart; what was imported need not be looked at.
    gc.freeze()
    return _wrapper(timeouts)(entered)()


def _run_once[Result](train: Callable[[], Result], timeouts: Timeouts) -> Result:
    alone = "RANK" not in os.environ
    dist.init_process_group(
        _BACKENDS[device_type()],
        timeout=timeouts.process_group,
        store=HashStore() if alone else None,
        rank=0 if alone else -1,
        world_size=1 if alone else -1,
    )
    return _run_entered(train, 0)


def _run_iteration[Result](
    train: Callable[[], Result], iteration: int, timeouts: Timeouts
) -> Result:
    if dist.is_initialized():
        # What the wrapper calls to abort the last iteration failed; it only logs that.
        dist.destroy_process_group()
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=False,
        wait_for_workers=False,
        timeout=_STORE_TIMEOUT,
    )
    with gloo.tracked():
        dist.init_process_group(
            _BACKENDS[device_type()],
            timeout=timeouts.process_group,
            store=PrefixStore(f"rtj-{iteration}", store),
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
        )
    return _run_entered(train, iteration)


def _run_entered[Result](train: Callable[[], Result], iteration: int) -> Result:
    this = rank.current()
    if this is not None:
        this.entered(iteration)
    try:
        result = train()
    except Exception as error:
        if this is not None and not is_echo(error):
            this.failed(error, iteration)
        raise
    dist.destroy_process_group()
    return result


def is_echo(error: Exception) -> bool:
    """Whether a collective failed, which tells of another rank's fault and not of this one's."""
    if isinstance(error, dist.DistError):
        return True
    trace = error.__traceback__
    if not isinstance(error, RuntimeError) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return Path(trace.tb_frame.f_code.co_filename).is_relative_to(_TORCH_DISTRIBUTED)


def _wrapper(timeouts: Timeouts) -> "Wrapper":
    from nvidia_resiliency_ext import inprocess
    from nvidia_resiliency_ext.inprocess import nested_restarter
    from nvidia_resiliency_ext.inprocess.abort import Abort, AbortTorchDistributed
    from nvidia_resiliency_ext.inprocess.health_check import CudaHealthCheck

    class SeverGloo(Abort):
        """What AbortTorchDistributed does not do for gloo."""

        def __call__(self, state: Any) -> Any:
            gloo.sever()
            _let_main_thread_settle()
            return state

    often = timedelta(seconds=0.25)
    with _without_gpu_checks():
        return inprocess.Wrapper(
            initialize=inprocess.Compose(
                inprocess.initialize.RetryController(
                    max_iterations=_MAX_ITERATIONS, min_world_size=int(os.environ["WORLD_SIZE"])
                ),
                nested_restarter.NestedRestarterHandlingCompleted(),
            ),
            abort=inprocess.Compose(
                # The last is called first.
                AbortTorchDistributed(),
                SeverGloo(),
                nested_restarter.NestedRestarterHandlingStarting(),
            ),
            # Waits for kernels that still run, which could write to what the next entry uses. If
            # they do not end, the process does.
            health_check=CudaHealthCheck(timeouts.soft / 3) if device_type() == "cuda" else None,
            completion=nested_restarter.NestedRestarterFinalized(),
            terminate=nested_restarter.NestedRestarterAborted(),
            soft_timeout=timeouts.soft,
            hard_timeout=timeouts.hard,
            heartbeat_timeout=timeouts.heartbeat,
            barrier_timeout=timeouts.barrier,
            completion_timeout=timeouts.barrier,
            # Only bounds its waits for news, which wake it at once.
            monitor_thread_interval=4 * often,
            monitor_process_interval=often,
            heartbeat_interval=2 * often,
            progress_watchdog_interval=2 * often,
            last_call_wait=2 * often,
        )


def _let_main_thread_settle() -> None:
    """Wait until the main thread has told its monitor process of the collective that just failed.

    Next the wrapper raises an exception in the main thread, wherever that is. Between taking and
    releasing the lock of the queue to the monitor process it would leave it locked for ever, and
    the rank would count as unresponsive.
    """
    from nvidia_resiliency_ext.inprocess.progress_watchdog import ProgressWatchdog

    main, settled = threading.main_thread().ident, ProgressWatchdog.spin_till_paused.__code__
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        frame = sys._current_frames().get(main or 0)
        while frame is not None and frame.f_code is not settled:
            frame = frame.f_back
        if frame is not None:
            return
        time.sleep(_SETTLE_POLL_SECONDS)


@contextlib.contextmanager
def _without_gpu_checks() -> Iterator[None]:
    """Keep NVRx from looking for GPUs where there are none: it looks for those of LOCAL_RANK."""
    local_rank = os.environ.pop("LOCAL_RANK", None) if device_type() == "cpu" else None
    yield
    if local_rank is not None:
        os.environ["LOCAL_RANK"] = local_rank
