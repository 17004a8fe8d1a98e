"""Nodes that freeze, are cut off, or lose their container; the spare takes over."""

from demo import faults, main_job
from demo.kube import Kube
from demo.watch import JobWatch
from localcluster.cluster import Cluster
from rtj_api import names
from tests.cluster import jobs


def test_a_frozen_node_loses_its_position_to_the_spare_and_is_fenced_when_it_thaws(
    kube: Kube, healthy: Cluster, start
) -> None:
    watch = start(jobs.demo_job("frozen", steps=100_000))
    watch.wait_step(1, 90)
    victim = faults.rank_of(kube, "frozen", 3)
    main_job.recover_from(watch, lambda: healthy.fault.freeze_node(victim.node), 5, 60)
    # One that thaws before the cluster could have told of its pod is taken back instead.
    watch.wait("exclusion of the node", lambda w: victim.node in _excluded(w), 30)
    lives = {step.life for step in watch.sorted_steps()}
    healthy.fault.thaw_node(victim.node)
    watch.wait_step(watch.highest_step + 30, 90)
    assert {step.life for step in watch.sorted_steps()} == lives
    assert faults.rank_of(kube, "frozen", 3).node != victim.node


def _excluded(watch: JobWatch) -> list[str]:
    return [node["name"] for node in watch.status["nodes"].get("excluded", [])]


def test_a_node_cut_off_from_the_network_is_replaced_and_stays_out_when_it_returns(
    kube: Kube, healthy: Cluster, start
) -> None:
    watch = start(jobs.demo_job("cut", steps=100_000))
    watch.wait_step(1, 90)
    victim = faults.rank_of(kube, "cut", 3)
    main_job.recover_from(watch, lambda: healthy.fault.partition_node(victim.node), 5, 60)
    lives = {step.life for step in watch.sorted_steps()}
    healthy.fault.heal_node(victim.node)
    # Its agent is back and told in 2 s; asking each pod for its ranks takes as long again.
    watch.wait(
        "end of the returned pod's ranks",
        lambda _: victim.pod not in {rank.pod for rank in faults.ranks(kube, "cut")},
        10,
    )
    watch.wait_step(watch.highest_step + 30, 90)
    assert {step.life for step in watch.sorted_steps()} == lives
    assert faults.rank_of(kube, "cut", 3).pod != victim.pod


def test_a_deleted_worker_pod_is_replaced_without_blaming_its_node(kube: Kube, start) -> None:
    watch = start(jobs.demo_job("deleted", steps=100_000))
    watch.wait_step(1, 90)
    victim = faults.rank_of(kube, "deleted", 3)
    survivors = {r.pod for r in faults.ranks(kube, "deleted") if r.rank < 2}
    main_job.recover_from(
        watch, lambda: kube.kubectl("delete", "pod", victim.pod, "--wait=false"), 5, 60
    )
    assert {r.pod for r in faults.ranks(kube, "deleted") if r.rank < 2} == survivors
    watch.wait("history", lambda w: len(w.status.get("history", [])) == 1, 30)
    watch.wait("new spare", lambda w: w.status["workers"]["spares"] == 1, 60)
    assert _excluded(watch) == []


# The reference training; on a node that the file names each process fails at its start.
BROKEN = """
import os, runpy, sys
if os.environ["NODE"] in open("/checkpoints/bad-nodes").read().split():
    sys.exit("CUDA error: device unavailable")
sys.argv = ["train", "--steps=100000", "--step-seconds=0.3", "--save-every=5"]
runpy.run_module("rtj_trainer.reference", run_name="__main__")
"""


def test_a_node_on_which_every_process_fails_is_given_up_for_the_spare(
    kube: Kube, cluster: Cluster, start
) -> None:
    bad_nodes = cluster.shared_dir / kube.namespace / "bad-nodes"
    bad_nodes.parent.mkdir(parents=True)
    bad_nodes.touch()
    job = jobs.demo_job("broken")
    jobs.trainer(job)["env"] = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ]
    jobs.set_args(job, "python", "-c", BROKEN)
    watch = start(job)
    watch.wait_step(1, 90)
    victim = faults.rank_of(kube, "broken", 3)

    def break_node() -> None:
        bad_nodes.write_text(victim.node)
        faults.kill_process(kube, "broken", 3)

    main_job.recover_from(watch, break_node, 5, 120)
    assert faults.rank_of(kube, "broken", 3).node != victim.node
    watch.wait("exclusion of the node", lambda w: _excluded(w) == [victim.node], 30)


def test_a_node_that_dies_without_a_spare_waits_for_a_new_pod_elsewhere(
    kube: Kube, healthy: Cluster, start
) -> None:
    watch = start(jobs.demo_job("spareless", steps=100_000, spares=0))
    watch.wait_step(1, 90)
    victim = faults.rank_of(kube, "spareless", 2)
    main_job.recover_from(watch, lambda: healthy.fault.kill_node(victim.node), 5, 120)
    assert faults.rank_of(kube, "spareless", 2).pod == names.worker_pod("spareless", 1, 1)
