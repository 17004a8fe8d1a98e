"""The fleet's harness at a size at which it costs seconds: that it measures, and leaves nothing."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.api.conftest import REPOSITORY

SECONDS = 120
# What does not depend on how busy the machine is.
COUNTS = {"pod_failed_created": 1, "node_silent_created": 1, "gang_created": 0}


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder with a short path, since sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="rtjt-") as path:
        yield Path(path)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.fleet", "--workers=30", "--repeats=1", *arguments]


def test_every_figure_of_a_small_fleet_is_measured(folder: Path) -> None:
    done = subprocess.run(
        _command("--rows=start,pod,silent,gang"),
        cwd=REPOSITORY,
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert [name for name, line in lines.items() if line["value"] is None] == [], done.stderr
    assert {name: lines[name]["value"] for name in COUNTS} == COUNTS
    assert done.returncode == (0 if all(line["ok"] for line in lines.values()) else 1)
    assert list(folder.iterdir()) == []
    assert _processes_in(folder) == []


def test_a_fleet_that_is_killed_leaves_no_process(folder: Path) -> None:
    with subprocess.Popen(
        _command("--rows=pod"),
        cwd=REPOSITORY,
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as fleet:
        assert fleet.stderr is not None
        # All of it runs by then: cluster, operator, coordinator and agents.
        assert any("one pod fails" in line for line in fleet.stderr)
        assert len(_processes_in(folder)) >= 5
        fleet.kill()
        fleet.wait(20)
    deadline = time.monotonic() + 10
    while left := _processes_in(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _processes_in(folder: Path) -> list[str]:
    """Command lines and environments that name the folder: what a fleet of that folder started."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.append((process / "cmdline").read_text().replace("\0", " "))
    return found
