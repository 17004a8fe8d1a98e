"""How a job ends, with the real launcher: finished, saved, stopped, refused, or never started."""

import signal
import sys
from pathlib import Path

import msgspec

from rtj_api import names
from rtj_api.messages import TerminationMessage
from tests.launcher import plain_script
from tests.launcher.job import Job, Worker, running_job

_SMALL = ("--dim=64", "--layers=2", "--seq=16", "--batch=1", "--save-every=5")
_REFERENCE = ("python", "-m", "rtj_trainer.reference", *_SMALL)
_PLAIN_SCRIPT = Path(plain_script.__file__).read_text()
_WAIT_SECONDS = 120


def _last_words(worker: Worker) -> TerminationMessage:
    return msgspec.json.decode(worker.termination_log.read_bytes(), type=TerminationMessage)


async def _all_exit(job: Job) -> list[int]:
    """The operator has seen the end: it wants nobody any more."""
    await job.direct(stop="now")
    return [worker.process.wait(timeout=10) for worker in job.workers.values()]


async def test_finished_training_is_success():
    command = (*_REFERENCE, "--steps=8")
    async with running_job(command, nodes=2, processes_per_node=2) as job:
        await job.operator.until(lambda view: view.outcome.state != "none", _WAIT_SECONDS)
        assert job.view.outcome.state == "succeeded"
        assert await _all_exit(job) == [0, 0]
        assert {_last_words(worker).outcome for worker in job.workers.values()} == {"finished"}


async def test_a_script_that_knows_nothing_of_us_is_done_with_exit_code_0():
    command = ("python", "-c", _PLAIN_SCRIPT)
    async with running_job(command, nodes=2, processes_per_node=2) as job:
        view = await job.operator.until(lambda view: view.outcome.state != "none", _WAIT_SECONDS)
        assert (view.outcome.state, view.highest_step, view.faults) == ("succeeded", 4, ())
        assert await _all_exit(job) == [0, 0]
        assert {_last_words(worker).outcome for worker in job.workers.values()} == {"finished"}


async def test_exit_code_0_of_a_script_that_beats_is_no_success():
    code = "import rtj_trainer; rtj_trainer.beat(step=1)"
    shell = ("/bin/sh", "-c", f"exec {sys.executable} -c '{code}'")
    async with running_job(shell, nodes=1, processes_per_node=2) as job:
        view = await job.operator.until(lambda view: bool(view.faults), _WAIT_SECONDS)
        assert view.outcome.state == "none"
        assert view.faults[0].kind == "control", "NVRx ended the run: only another one goes on"
        assert "rtj_trainer.done()" in view.faults[0].message
        await job.direct(run=2)
        view = await job.operator.until(lambda view: len(view.faults) > 1, _WAIT_SECONDS)
        assert [(fault.run, fault.kind) for fault in view.faults] == [
            (1, "control"),
            (2, "control"),
        ]


async def test_save_and_leave_and_take_up_again():
    command = (*_REFERENCE, "--steps=100000", "--step-seconds=0.1")
    async with running_job(command, nodes=2, processes_per_node=1) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        await job.direct(stop="save")
        await job.operator.until(lambda view: view.outcome.state != "none", _WAIT_SECONDS)
        view = job.view
        assert view.outcome.state == "saved"
        assert view.checkpoint_step == view.highest_step
        assert not view.faults

        # Resuming is a new run in the same pods; no step is done twice.
        await job.direct(stop="none", run=2)
        await job.until_step_beyond(view.highest_step, _WAIT_SECONDS)
        assert f"resumed after step {view.highest_step}" in job.log("worker-0-0")

        await job.direct(stop="save")
        await job.operator.until(lambda view: view.outcome.state == "saved", _WAIT_SECONDS)
        assert await _all_exit(job) == [0, 0]
        assert {_last_words(worker).outcome for worker in job.workers.values()} == {"saved"}


async def test_script_that_fails_at_once_is_told_with_its_error():
    async with running_job(("no_such_script.py",), nodes=1, processes_per_node=2) as job:
        view = await job.operator.until(lambda view: len(view.faults) > 1, _WAIT_SECONDS)
        assert view.faults[0].kind == "exit"
        assert view.faults[0].exit_code == 2
        assert "no_such_script.py" in view.faults[0].message
        # SIGTERM in the midst of restarts ends the pod like any other.
        worker = job.workers[0]
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(timeout=10) == 0
        assert _last_words(worker).outcome == "stopped"


async def test_a_program_that_is_not_there_is_named():
    async with running_job(("/no/such/binary",), nodes=1, processes_per_node=1) as job:
        view = await job.operator.until(lambda view: len(view.faults) > 1, _WAIT_SECONDS)
        for fault in view.faults[:2]:
            assert (fault.kind, fault.exit_code) == ("exit", 127), "no pod is to blame"
            assert "/no/such/binary: No such file" in fault.message


async def test_do_not_restart_is_passed_through():
    code = "import os; os._exit(93)"
    async with running_job(
        ("/bin/sh", "-c", f"exec python3 -c '{code}'"), nodes=1, processes_per_node=1
    ) as job:
        view = await job.operator.until(lambda view: bool(view.faults), _WAIT_SECONDS)
        assert view.faults[0].exit_code == names.EXIT_DO_NOT_RESTART
