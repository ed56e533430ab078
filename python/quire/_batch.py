"""Many requests through one engine: as many in its queue as keep it busy, results in order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from quire import _quire
from quire._client import Client, Prompt
from quire._processors import ProcessorChain
from quire.errors import GenerationInterrupted, ResourceExhaustedError

__all__ = ["Job", "run_batch"]

_POLL_S = 0.1  # how late Ctrl-C may be noticed
_PAUSE_S = 0.01  # until a queue that others have filled is tried again
_MAX_IDLE_REFUSALS = 50  # then it will never fit

T = TypeVar("T")


class Job:
    """A request to come. ``prepare`` gives its prompt when it is its turn."""

    __slots__ = (
        "embed",
        "num_outputs",
        "params",
        "prepare",
        "priority",
        "processors",
        "prompt",
        "request_id",
    )

    def __init__(
        self,
        prepare: Callable[[], Prompt],
        params: _quire.Params,
        num_outputs: int,
        request_id: str,
        priority: int | None = None,
        embed: bool = False,
        processors: ProcessorChain | None = None,
    ) -> None:
        self.prepare = prepare
        self.params = params
        self.num_outputs = num_outputs
        self.request_id = request_id
        self.priority = priority
        self.embed = embed
        self.processors = processors
        self.prompt: Prompt | None = None


class _Batch(Generic[T]):
    def __init__(
        self,
        client: Client,
        jobs: Sequence[Job],
        finish: Callable[[int, Job, _quire.RequestRecord], T],
        progress: Callable[[_quire.RequestRecord], None] | None,
    ) -> None:
        self.client = client
        self.jobs = jobs
        self.finish = finish
        self.progress = progress
        self.inbox = _quire.Inbox(whole=True)
        self.come: list[_quire.RequestRecord] = []
        self.running: dict[int, tuple[int, int]] = {}  # key: (place, the engine's number)
        self.results: list[T | None] = [None] * len(jobs)
        self.num_running = 0  # outputs
        self.may_retry = True
        self.todo = deque(range(len(jobs)))  # places that are to be submitted, in this order
        self.num_idle_refusals = 0  # one after the other, while nothing ran
        # Twice what runs at once, so that the engine always has the next at hand.
        self.window = 2 * int(client.info["max_num_seqs"])

    def submit(self) -> None:
        """Fills the window. A full queue ends it, and is tried again later."""
        while self.todo:
            place = self.todo[0]
            job = self.jobs[place]
            if self.running and self.num_running + job.num_outputs > self.window:
                return
            if job.prompt is None:
                job.prompt = job.prepare()
            key = self.client.new_key()
            # Known before the engine has it, so that an exception of a signal in between loses nothing.
            self.running[key] = (place, 0)
            try:
                number = self.client.submit(
                    self.inbox, key, job.prompt, job.params, job.request_id,
                    priority=job.priority, embed=job.embed, processors=job.processors,
                )
            except BaseException as error:
                del self.running[key]
                if not self._may_fit_later(error):
                    raise
                return
            self.running[key] = (place, number)
            self.num_running += job.num_outputs
            self.todo.popleft()

    def _may_fit_later(self, error: BaseException | None) -> bool:
        """Whether it is a full queue that others may leave."""
        if not isinstance(error, ResourceExhaustedError) or not error.remedy.startswith("try again"):
            return False
        stats = json.loads(self.client.engine.stats())
        idle = not self.running and stats["num_running"] + stats["num_waiting"] == 0
        self.num_idle_refusals = self.num_idle_refusals + 1 if idle else 0
        return self.num_idle_refusals < _MAX_IDLE_REFUSALS

    def take(self, timeout: float) -> None:
        """Takes in what has ended."""
        self.inbox.take_into(self.come, timeout)
        while self.come:
            record = self.come[-1]
            place, _ = self.running.get(record.key, (-1, 0))
            if place >= 0:
                try:
                    self._end(place, record)
                except Exception:
                    self.running.pop(record.key)
                    self.come.pop()
                    raise
                self.num_running -= self.jobs[place].num_outputs
                del self.running[record.key]
            self.come.pop()  # last: what a signal interrupts before this is done again
            if place >= 0 and self.results[place] is not None and self.progress is not None:
                self.progress(record)

    def _end(self, place: int, record: _quire.RequestRecord) -> None:
        error = self.client.error_of(record, self.jobs[place].processors)
        if error is None:
            self.results[place] = self.finish(place, self.jobs[place], record)
        elif self.may_retry and self._may_fit_later(error):
            self.todo.appendleft(place)
        else:
            raise error

    def run(self) -> None:
        while self.todo or self.running:
            self.submit()
            self.take(_POLL_S if self.running else _PAUSE_S)

    def end(self) -> None:
        """Ends what runs, keeping what it has given so far."""
        self.progress = None
        self.may_retry = False
        for _, number in list(self.running.values()):
            if number:
                self.client.abort(number)
        while any(number for _, number in self.running.values()) or self.come:
            try:
                self.take(_POLL_S)
            except Exception:  # noqa: BLE001, S112: what one request ended with; the others go on
                continue


def run_batch(
    client: Client,
    jobs: Sequence[Job],
    finish: Callable[[int, Job, _quire.RequestRecord], T],
    progress: Callable[[_quire.RequestRecord], None] | None = None,
) -> list[T]:
    """What ``finish`` makes of each request, in their order. Any error ends all of them."""
    batch = _Batch(client, jobs, finish, progress)
    try:
        batch.run()
    except KeyboardInterrupt:
        batch.end()
        raise GenerationInterrupted(batch.results) from None
    except BaseException:
        batch.end()
        raise
    return [result for result in batch.results if result is not None]
