"""What ranks print goes on behind a prefix, and the last lines are remembered."""

import asyncio
import os
import sys

import pytest

from rtj_trainer.agent.streams import TAIL_LINES, Stream


@pytest.mark.parametrize("count", [1, 3 * TAIL_LINES])
async def test_last_lines_are_whole_even_right_after_death(
    count: int, capfd: pytest.CaptureFixture[str]
):
    stream = Stream("[local rank 0] ")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"[print('line', n) for n in range({count})]",
        stdout=stream.writer,
    )
    stream.close_writer()
    await child.wait()
    await stream.settle(5)
    lines = stream.tail(10_000).splitlines()
    assert lines == [f"line {n}" for n in range(count)][-TAIL_LINES:]
    assert f"[local rank 0] line {count - 1}\n" in capfd.readouterr().out


async def test_tail_keeps_the_end_and_forgets_on_demand():
    stream = Stream("")
    os.write(stream.writer, b"Traceback\nValueError: boom\n")
    await stream.settle(5)
    assert stream.tail(4) == "boom"
    assert stream.tail(20) == "ValueError: boom"
    stream.forget()
    assert stream.tail(100) == ""
    stream.close_writer()


async def test_last_words_without_a_newline_are_kept_and_not_glued_to_the_next_process(
    capfd: pytest.CaptureFixture[str],
):
    stream = Stream("[local rank 0] ")

    async def run(script: str) -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stderr=stream.writer
        )
        await child.wait()
        await stream.settle(5)

    # The pipe stays open between the two, as the launcher holds it.
    await run("import sys; sys.stderr.write('first\\nboom'); sys.exit(1)")
    assert stream.tail(100) == "first\nboom"
    stream.forget()
    assert stream.tail(100) == ""
    await run("import sys; sys.stderr.write('next\\n')")
    assert stream.tail(100) == "next"
    assert capfd.readouterr().out == "".join(
        f"[local rank 0] {line}\n" for line in ("first", "boom", "next")
    )
    stream.close_writer()
