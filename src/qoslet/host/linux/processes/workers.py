"""Work that is spread over processes, and its results in the order of the work."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from queue import Queue
from threading import Thread
from typing import Any, TypeVar

from qoslet.errors import CannotDo
from qoslet.host.linux.processes.limit import start_thread

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 2
"""Tasks that wait at a worker, so that it need not wait for the next."""


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def spread(
    tasks: Iterable[Task], begin: Callable[[], Callable[[Task], Result]], count: int
) -> Iterator[tuple[int, Result]]:
    """The result of each task, in the order of the tasks, with the number of the worker that made it.
    Each of ``count`` processes calls ``begin`` once, and what that gives for each task; with one,
    this process does. A worker sees what this process holds when this is called. Raises CannotDo
    where a worker dies."""
    if count <= 1:
        work = begin()
        for task in tasks:
            yield 0, work(task)
        return
    context = get_context("fork")
    ends: list[Connection[Any, Any]] = []
    processes = []
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_worker, args=(theirs, begin, [*ends, ours]), daemon=True
            )
            process.start()
            theirs.close()
            ends.append(ours)
            processes.append(process)
        yield from _ordered(iter(tasks), ends)
    except (EOFError, ConnectionError, BrokenPipeError):
        hint = "is memory short? --jobs 1 uses one process"
        raise CannotDo("a worker process ended", hint=hint) from None
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.terminate()
            process.join()


def _ordered(tasks: Iterator[Task], ends: list[Connection[Any, Any]]) -> Iterator[tuple[int, Any]]:
    """Hands out tasks and gives the results in order; at most a few are on their way."""
    done: dict[int, tuple[int, Any]] = {}
    busy: dict[int, list[int]] = {number: [] for number in range(len(ends))}
    sent = given = 0
    more = True
    while True:
        for number in sorted(busy, key=lambda one: len(busy[one])):
            while more and len(busy[number]) < _AHEAD and sent - given < 8 * len(ends):
                try:
                    task = next(tasks)
                except StopIteration:
                    more = False
                    break
                ends[number].send(task)
                busy[number].append(sent)
                sent += 1
        while given in done:
            yield done.pop(given)
            given += 1
        if not more and given == sent:
            return
        waited = [ends[number] for number, some in busy.items() if some]
        # all results may have come at once: there is room for tasks again, and nobody has one
        for end in wait(waited) if waited else ():
            number = ends.index(end)  # type: ignore[arg-type]
            failed, result = ends[number].recv()
            if failed:
                raise result
            done[busy[number].pop(0)] = number, result


def _worker(
    end: Connection[Any, Any],
    begin: Callable[[], Callable[[Any], Any]],
    others: list[Connection[Any, Any]],
) -> None:
    """The life of a worker: until its pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:
        other.close()
    # nothing here makes cycles
    gc.disable()
    tasks: Queue[Any] = Queue(_AHEAD)
    start_thread(Thread(target=_receive, args=(end, tasks), daemon=True))
    work = begin()
    while (task := tasks.get()) is not _LAST:
        try:
            answer = False, work(task)
        except Exception as error:  # noqa: BLE001 - told by the process that waits for it
            answer = True, error
        try:
            end.send(answer)
        except (BrokenPipeError, ConnectionError):
            return


_LAST = object()


def _receive(end: Connection[Any, Any], tasks: Queue[Any]) -> None:
    try:
        while True:
            tasks.put(end.recv())
    except (EOFError, OSError):
        tasks.put(_LAST)
