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


def test_a_node_that_dies_without_a_spare_waits_for_a_new_pod_elsewhere(
    kube: Kube, healthy: Cluster, start
) -> None:
    watch = start(jobs.demo_job("spareless", steps=100_000, spares=0))
    watch.wait_step(1, 90)
    victim = faults.rank_of(kube, "spareless", 2)
    main_job.recover_from(watch, lambda: healthy.fault.kill_node(victim.node), 5, 120)
    assert faults.rank_of(kube, "spareless", 2).pod == names.worker_pod("spareless", 1, 1)
