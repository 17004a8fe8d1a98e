"""The OOM killer's counter in either cgroup version."""

from pathlib import Path

import pytest

from rtj_trainer.agent.memory import OomWatch

_V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
_V2 = "low 0\nhigh 0\nmax 9\noom 3\noom_kill {}\noom_group_kill 0\n"


@pytest.mark.parametrize("text", [_V1, _V2])
def test_each_kill_is_told_once(tmp_path: Path, text: str):
    file = tmp_path / "events"
    file.write_text(text.format(2))
    watch = OomWatch((tmp_path / "missing", file))
    assert not watch.struck()
    file.write_text(text.format(3))
    assert watch.struck()
    assert not watch.struck()


def test_without_a_counter_there_is_no_claim(tmp_path: Path):
    assert not OomWatch((tmp_path / "missing",)).struck()
