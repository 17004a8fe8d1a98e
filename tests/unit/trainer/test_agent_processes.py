"""Ending everything below the agent, on real processes: orphans, other sessions, deaf ones."""

import json
import subprocess
import sys
from pathlib import Path


def test_everything_but_the_spared_tree_goes_and_no_exit_status_is_stolen():
    program = Path(__file__).with_name("process_tree.py")
    result = subprocess.run(
        [sys.executable, program, "agent"], capture_output=True, text=True, timeout=30, check=True
    )
    assert json.loads(result.stdout) == {
        "only_the_managed_zombie_is_left": True,
        "orphan_gone": True,
        "spared_lives": True,
        "managed_status": 7,
        "left_after_all": [],
        "nobody_below": True,
    }
