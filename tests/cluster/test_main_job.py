"""The three rungs of the mission on one job: in-process, in-job, node replacement; then the end."""

import time

from demo import faults, main_job
from demo.kube import Kube
from localcluster.cluster import Cluster
from rtj_api import names
from tests.cluster import jobs
from tests.cluster.conftest import wait_until


def test_each_rung_brings_training_back_and_the_job_completes(
    kube: Kube, healthy: Cluster, start
) -> None:
    job = "main"
    watch = start(jobs.demo_job(job, steps=150))
    watch.wait_step(1, 90)

    pids = {rank.rank: rank.pid for rank in faults.ranks(kube, job)}
    main_job.recover_from(watch, lambda: faults.raise_exception(kube, job, rank=2), 8, 90)
    assert {rank.rank: rank.pid for rank in faults.ranks(kube, job)} == pids

    pods = {rank.rank: rank.pod for rank in faults.ranks(kube, job)}
    main_job.recover_from(watch, lambda: faults.kill_process(kube, job, rank=1), 8, 90)
    assert {rank.rank: rank.pod for rank in faults.ranks(kube, job)} == pods

    victim = faults.rank_of(kube, job, 3)
    main_job.recover_from(watch, lambda: healthy.fault.kill_node(victim.node), 8, 90)
    after = {rank.rank: rank for rank in faults.ranks(kube, job)}
    assert {r: after[r].pod for r in (0, 1)} == {r: pods[r] for r in (0, 1)}
    assert after[3].node != victim.node

    main_job.complete(watch, 120)
    history = [(e["class"], e["rung"]) for e in watch.status["history"]]
    assert history == [("Application", "InProcess"), ("ProcessDied", "InJob"), ("NodeLost", "Node")]
    assert watch.status["restarts"]["summary"] == "1/1/0/1/0"
    assert [n["name"] for n in watch.status["nodes"]["excluded"]] == [victim.node]
    assert watch.highest_step == 150

    wait_until("taint on the dead node", lambda: _tainted(kube, victim.node), 40)
    wait_until("end of the job's pods", lambda: not _alive(kube, job, victim.node), 60)


def _tainted(kube: Kube, node: str) -> bool:
    taints = kube.kubectl("get", "node", node, "-o", "jsonpath={.spec.taints[*].key}")
    return names.TAINT_FAULTY in taints.split()


def _alive(kube: Kube, job: str, dead_node: str) -> list[str]:
    pods = [p for p in kube.pods(job) if p.spec.node_name != dead_node]
    return [p.metadata.name for p in pods if p.status.phase in ("Running", "Pending")]


def test_a_job_without_faults_trains_once_and_completes(kube: Kube, start) -> None:
    began = time.time()
    watch = start(jobs.demo_job("calm", steps=20))
    main_job.complete(watch, 120)
    assert watch.sorted_steps()[0].unix - began < 30
    assert [step.step for step in watch.sorted_steps()] == list(range(1, 21))
    assert watch.status["restarts"]["summary"] == "0/0/0/0/0"
    assert watch.status.get("history", []) == []
    assert kube.kubectl("wait", "rtj/calm", "--for=condition=Complete", "--timeout=5s")


def test_a_script_that_knows_nothing_of_us_completes(kube: Kube, start) -> None:
    job = jobs.demo_job("plain")
    jobs.set_args(job, "python", "-c", "import time; time.sleep(5)")
    watch = start(job)
    watch.wait("completion", lambda w: w.status.get("phase") == "Complete", 120)
    assert watch.status["restarts"]["summary"] == "0/0/0/0/0"
