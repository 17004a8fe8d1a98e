"""The termination message always fits and never stands in the way of ending."""

from pathlib import Path

import msgspec

from rtj_api.messages import TerminationMessage
from rtj_trainer.agent.termination import leave_word


def test_longest_message_fits_the_kubelets_bound(tmp_path: Path):
    path = tmp_path / "log"
    message = TerminationMessage(run=3, outcome="saved", exit_code=-9, message="\x01" * 1024)
    leave_word(path, message)
    assert len(path.read_bytes()) <= 4096
    read = msgspec.json.decode(path.read_bytes(), type=TerminationMessage)
    assert (read.run, read.outcome, read.exit_code) == (3, "saved", -9)


def test_unwritable_log_is_no_error(tmp_path: Path):
    leave_word(tmp_path / "no" / "log", TerminationMessage())
