"""Instance profiles: every type loads, both names match, the unknown is told what there is."""

import pytest

from rtj_operator.render import profiles
from tests.unit.render.builders import a_profile, a_spec

# AWS's public figures: GPUs and EFA interfaces of each type.
DEVICES = {
    "cpu": (0, 0),
    "p4d.24xlarge": (8, 4),
    "p4de.24xlarge": (8, 4),
    "p5.4xlarge": (1, 1),
    "p5.48xlarge": (8, 32),
    "p5e.48xlarge": (8, 32),
    "p5en.48xlarge": (8, 16),
    "p6-b200.48xlarge": (8, 8),
    "p6-b300.48xlarge": (8, 16),
}


def test_the_table_is_of_all_known_types() -> None:
    assert set(profiles.known()) == set(DEVICES)


@pytest.mark.parametrize(("name", "want"), DEVICES.items(), ids=list(DEVICES))
def test_devices_of(name: str, want: tuple[int, int]) -> None:
    instance = a_profile(name).instance
    assert (instance.gpus, instance.efa) == want


def test_hyperpod_name_finds_the_same_profile_and_both_labels_match() -> None:
    assert profiles.find("ml.p5.48xlarge") == profiles.find("p5.48xlarge")
    assert a_profile("p5.48xlarge").node_label_values == ("p5.48xlarge", "ml.p5.48xlarge")


def test_cpu_runs_on_any_node() -> None:
    assert a_profile("cpu").node_label_values == ()


def test_unknown_type_is_told_what_to_write() -> None:
    assert profiles.find("p9.huge") is None
    text = profiles.unknown_instance_type("p9.huge")
    assert text.startswith("spec.instanceType: 'p9.huge' has no profile; write one of cpu,")


@pytest.mark.parametrize(
    ("name", "given", "want"),
    [
        pytest.param("p5.48xlarge", None, 8, id="one rank per GPU"),
        pytest.param("cpu", None, 1, id="one rank on a CPU"),
        pytest.param("p5.48xlarge", 4, 4, id="the spec wins"),
    ],
)
def test_processes_per_node(name: str, given: int | None, want: int) -> None:
    spec = a_spec(instanceType=name, processesPerNode=given)
    assert profiles.processes_per_node(spec, a_profile(name)) == want
