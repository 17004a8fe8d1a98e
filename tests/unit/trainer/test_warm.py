"""Ranks forked by the server are what ranks started by exec would be."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rtj_trainer.warm import NotWarm, Program

# A launcher without torch: starts the server, then one warm rank with the arguments given.
_LAUNCHER = """
import os, sys
from rtj_trainer.warm import Forge
forge = Forge.start()
assert forge is not None
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
env = {**os.environ, "RANK": "3"}
rank = forge.spawn([sys.executable, "-u", *sys.argv[2:]], env, out, out)
print(rank.pid, forge.pid, flush=True)
code = rank.wait(60)
assert rank.poll() == code
print(code, flush=True)
"""


def _launch(folder: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    program = folder / "train.py"
    program.write_text(textwrap.dedent(script))
    command = [sys.executable, "-c", _LAUNCHER, str(folder / "out"), str(program), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finish(launcher: subprocess.Popen[str]) -> int:
    output, error = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, error
    return int(output.split()[-1])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_rank_sees_its_own_arguments_environment_and_session(tmp_path: Path):
    launcher = _launch(
        tmp_path,
        """
        import json, os, sys
        print(json.dumps({
            "argv": sys.argv, "rank": os.environ["RANK"], "path": sys.path[0],
            "leads": os.getsid(0) == os.getpgid(0) == os.getpid(), "name": __name__,
            "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:3],
        }))
        """,
        "--steps",
        "5",
    )
    assert _finish(launcher) == 0
    seen = json.loads((tmp_path / "out").read_text())
    assert seen["argv"] == [str(tmp_path / "train.py"), "--steps", "5"]
    assert (seen["rank"], seen["path"], seen["name"]) == ("3", str(tmp_path), "__main__")
    assert seen["leads"]
    assert seen["descriptors"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        pytest.param("pass", 0, "", id="ends by itself"),
        pytest.param("import sys; sys.exit(82)", 82, "", id="exit code"),
        pytest.param("import sys; sys.exit('no data')", 1, "no data", id="exit message"),
        pytest.param("raise ValueError('boom')", 1, "ValueError: boom", id="exception"),
        pytest.param("import os; os.kill(os.getpid(), 9)", -9, "", id="signal"),
        pytest.param("import os; os._exit(7)", 7, "", id="hard exit"),
        pytest.param(
            "import atexit; atexit.register(print, 'bye')", 0, "bye", id="exit handlers run"
        ),
        pytest.param(
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
            0,
            "late",
            id="threads are waited for",
        ),
    ],
)
def test_end_is_told_as_popen_would(tmp_path: Path, script: str, code: int, output: str):
    assert _finish(_launch(tmp_path, script)) == code
    assert output in (tmp_path / "out").read_text()


@pytest.mark.parametrize("victim", ["launcher", "server"])
def test_rank_dies_with_launcher_or_server(tmp_path: Path, victim: str):
    launcher = _launch(tmp_path, "import time; time.sleep(600)")
    assert launcher.stdout is not None
    rank, server = map(int, launcher.stdout.readline().split())
    os.kill(launcher.pid if victim == "launcher" else server, signal.SIGKILL)
    _until(lambda: _is_gone(rank) and _is_gone(server))
    output, _ = launcher.communicate(timeout=60)
    if victim == "server":
        assert output.strip() == "-9"


def test_module_is_run_as_python_would():
    assert Program.parse([sys.executable, "-u", "-m", "trainer", "--x"]) == Program(
        ("trainer", "--x"), "-m"
    )


def test_code_is_run_as_python_would(capfd: pytest.CaptureFixture[str]):
    code = "import sys\ndef f(): return sys.argv, __name__\nprint(f(), sys.path[0] == '')"
    command = (sys.executable, "-c", code, "--x")
    program = Program.parse(command)
    forked = os.fork()
    if forked == 0:
        program.run()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(forked, 0)[1] == 0
    warm = capfd.readouterr().out
    assert warm == subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["/usr/bin/other-python", "train.py"], id="another Python"),
        pytest.param([sys.executable, "-X", "dev", "train.py"], id="an option of Python"),
        pytest.param(["numactl", "-N", "0", sys.executable, "train.py"], id="a wrapper"),
        pytest.param([sys.executable, "/no/such/train.py"], id="no such file"),
        pytest.param([sys.executable], id="nothing to run"),
        pytest.param([], id="nothing"),
    ],
)
def test_what_cannot_be_forked_is_refused(command: list[str]):
    with pytest.raises(NotWarm):
        Program.parse(command)


def test_imports_of_the_launcher_start_no_thread():
    script = """
import os
from rtj_trainer import warm
with warm.no_threads():
    from nvidia_resiliency_ext.fault_tolerance import launcher
    warm.import_all()
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    output = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    ).stdout
    assert output.split() == ["1", "None"]
