"""The replacement for NVRx's fixed wait at a stop, and the guards of the patches."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtj_trainer.nvrx import patches

_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def _group(preface: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", f"{preface}; print(1, flush=True); import time; time.sleep(60)"],
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_no_group_left_means_no_wait():
    child = _group("pass")
    child.kill()
    child.wait()
    before = time.monotonic()
    patches.terminate_groups({child.pid})
    assert time.monotonic() - before < 0.05


def test_group_deaf_to_sigterm_is_killed_after_its_grace():
    child = _group(_DEAF)
    before = time.monotonic()
    patches.terminate_groups({child.pid})
    assert child.wait(timeout=5) == -signal.SIGKILL
    assert 0.9 < time.monotonic() - before < 2


def test_group_that_heeds_sigterm_is_asked_first():
    child = _group("pass")
    patches.terminate_groups({child.pid})
    assert child.wait(timeout=5) == -signal.SIGTERM


def test_process_group_one_is_never_touched():
    child = _group("pass")
    patches.terminate_groups({1, child.pid})
    assert child.poll() is None
    child.kill()
    child.wait()


def test_other_version_or_source_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    patches._expect(test_no_group_left_means_no_wait, "before = ", 1)
    with pytest.raises(patches.Unpatched, match="1 times, not 2"):
        patches._expect(test_no_group_left_means_no_wait, "before = ", 2)
    monkeypatch.setattr(patches.metadata, "version", lambda _: "0.8.0")
    with pytest.raises(patches.Unpatched, match=r"0\.8\.0 is not"):
        patches._expect(test_no_group_left_means_no_wait, "before = ", 1)


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        pytest.param("/no/such/binary", 127, "No such file or directory", id="not there"),
        pytest.param("no-such-binary", 127, "No such file or directory", id="not in PATH"),
        pytest.param("{folder}/data", 126, "Permission denied", id="not executable"),
        pytest.param("{folder}/junk", 126, "Exec format error", id="no program"),
    ],
)
def test_a_program_that_cannot_be_executed_is_named_by_a_process_that_exits(
    tmp_path: Path, program: str, code: int, text: str
):
    (tmp_path / "data").write_bytes(b"")
    (tmp_path / "junk").write_bytes(b"\x7fjunk")
    (tmp_path / "junk").chmod(0o755)
    program = program.format(folder=tmp_path)
    with (tmp_path / "error").open("wb") as error:
        child = patches.start_cold((program, "--x"), {**os.environ}, 1, error.fileno())
    assert child.wait(timeout=10) == code
    said = (tmp_path / "error").read_text()
    assert said.startswith(f"cannot start {program}: {text}; correct command or args of container")
