"""The table of instance types that people read is the one that is used."""

from pathlib import Path

from rtj_operator.render import profiles
from tests.unit.render.builders import a_profile

DOCUMENT = Path(__file__).parents[3] / "docs" / "workers.md"


def test_documented_profiles_are_the_profiles() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").split("## For every worker")[0].splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[8:]]
    documented = {row[0]: row[1:] for row in rows if len(row) == 7}
    want: dict[str, tuple[str, ...]] = {}
    for name in profiles.known():
        it = a_profile(name).instance
        devices = (str(it.gpus), str(it.efa), it.hugepages_2mi or "-")
        want[name] = (*devices, it.cpu, it.memory, it.shm)
    assert {name: documented.get(name) for name in want} == want
