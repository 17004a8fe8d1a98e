"""Which rank's exception is its own, and when gloo lets go. The restart itself: tests/launcher."""

import socket
from datetime import timedelta

import pytest
import torch.distributed as dist

from rtj_trainer import gloo
from rtj_trainer.inprocess import TIMEOUTS, _wrapper, is_echo, run


def _raised_in_torch_distributed() -> Exception:
    try:
        dist.init_process_group("no such backend", store=dist.HashStore(), rank=0, world_size=1)  # pyright: ignore
    except Exception as error:
        return error
    raise AssertionError("nothing raised")


def _raised_here(error: Exception) -> Exception:
    try:
        raise error
    except Exception as raised:
        return raised


def _runtime_error_in_torch_distributed() -> Exception:
    code = compile("raise RuntimeError('Connection closed by peer')", dist.__file__, "exec")
    try:
        exec(code, {})
    except RuntimeError as error:
        return error
    raise AssertionError("nothing raised")


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(_raised_here(RuntimeError("mine")), False, id="raised by the script"),
        pytest.param(_raised_here(dist.DistBackendError("NCCL")), True, id="backend's error"),
        pytest.param(_runtime_error_in_torch_distributed(), True, id="collective failed"),
        pytest.param(_raised_in_torch_distributed(), False, id="wrong use of a collective"),
    ],
)
def test_only_failed_collectives_echo_another_ranks_fault(error: Exception, want: bool):
    assert is_echo(error) is want


@pytest.mark.parametrize("soft_timeout", [None, 5.0, 1000.0])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_timeouts_are_in_the_order_that_nvrx_demands(
    monkeypatch: pytest.MonkeyPatch, device: str, soft_timeout: float | None
):
    monkeypatch.setenv("RTJ_DEVICE", device)
    monkeypatch.setenv("WORLD_SIZE", "2")
    timeouts = TIMEOUTS[device].stretched(soft_timeout)
    if soft_timeout is not None:
        assert timeouts.soft == timedelta(seconds=soft_timeout)
    wrapper = _wrapper(timeouts)  # raises when NVRx refuses one
    assert wrapper.soft_timeout == timeouts.soft
    assert timeouts.soft < timeouts.hard < timeouts.barrier
    assert timeouts.heartbeat < timeouts.barrier
    if device == "cpu":
        assert timeouts.process_group < timeouts.soft
    else:
        assert timeouts.process_group > timeouts.hard


def test_soft_timeout_that_nvrx_could_not_keep_is_refused():
    with pytest.raises(ValueError, match="soft_timeout=1: write 5 seconds or more"):
        run(lambda: None, soft_timeout=1)


@pytest.mark.parametrize(
    ("device", "want"), [("cpu", []), ("cuda", ["CudaHealthCheck", "ChainedGPUHealthCheck"])]
)
def test_pending_kernels_are_waited_for_where_there_are_gpus(
    monkeypatch: pytest.MonkeyPatch, device: str, want: list[str]
):
    monkeypatch.setenv("RTJ_DEVICE", device)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    check = _wrapper(TIMEOUTS[device]).restart_health_check
    checks = [type(one).__name__ for one in getattr(check, "instances", ())]
    assert checks[:2] == want


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]


def test_sever_ends_tracked_connections_and_no_others():
    with socket.create_server(("127.0.0.1", 0)) as untracked_server:
        before = socket.create_connection(untracked_server.getsockname())
        with gloo.tracked():
            server = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(server.getsockname())
            peer, _ = server.accept()
        gloo.sever()

        assert peer.recv(1) == b""
        accepted, _ = untracked_server.accept()
        accepted.sendall(b"x")
        assert before.recv(1) == b"x"
        with socket.create_connection(server.getsockname()):
            pass
        for one in (before, accepted, client, peer, server):
            one.close()


@pytest.mark.parametrize("end", ["client", "server"])
def test_sever_spares_connections_with_the_store(monkeypatch: pytest.MonkeyPatch, end: str):
    with socket.create_server(("127.0.0.1", 0)) as store:
        monkeypatch.setenv("MASTER_PORT", str(store.getsockname()[1]))
        if end == "client":
            with gloo.tracked():
                client = socket.create_connection(store.getsockname())
            accepted, _ = store.accept()
        else:
            client = socket.create_connection(store.getsockname())
            with gloo.tracked():
                accepted, _ = store.accept()
        gloo.sever()
        accepted.sendall(b"x")
        assert client.recv(1) == b"x"
        client.close()
        accepted.close()


def test_sever_spares_a_descriptor_that_is_something_else_now():
    with gloo.tracked():
        left, right = _connected()
    number = left.fileno()
    left.close()
    right.close()
    with socket.create_server(("127.0.0.1", 0)) as server:
        new = socket.create_connection(server.getsockname())
        assert new.fileno() == number or server.fileno() == number
        gloo.sever()
        accepted, _ = server.accept()
        accepted.sendall(b"x")
        assert new.recv(1) == b"x"
        new.close()
        accepted.close()


def test_sever_spares_what_is_no_network_connection():
    with gloo.tracked():
        left, right = socket.socketpair()
    gloo.sever()
    left.sendall(b"x")
    assert right.recv(1) == b"x"
    left.close()
    right.close()


def test_sever_bears_a_connection_that_is_closed_meanwhile(monkeypatch: pytest.MonkeyPatch):
    with gloo.tracked():
        left, right = _connected()
    stale = gloo._sockets()
    left.close()
    monkeypatch.setattr(gloo, "_sockets", lambda: stale)
    gloo.sever()
    assert right.recv(1) == b""
    right.close()
