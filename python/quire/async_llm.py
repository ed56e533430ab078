"""``AsyncLLM``: requests of an event loop, each a stream of growing outputs."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any

from quire import _quire
from quire._client import Client, Prompt, PromptType, Weights
from quire._processors import ProcessorChain
from quire.errors import UnavailableError
from quire.outputs import CompletionOutput, LogprobsList, PoolingRequestOutput, RequestOutput
from quire.sampling_params import PoolingParams, RequestOutputKind, SamplingParams
from quire.tokenizer import Tokenizer

__all__ = ["AsyncEngineArgs", "AsyncLLM", "AsyncLLMEngine", "EngineArgs"]


class EngineArgs:
    """Settings of an engine, given as keywords: those of ``LLM``."""

    def __init__(self, model: str = "", **settings: Any) -> None:
        self.model = str(model)
        self.settings = settings

    def __repr__(self) -> str:
        others = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({self.model!r}{others})"


class AsyncEngineArgs(EngineArgs):
    """The same, under vLLM's name for asynchronous engines."""


class _Stream:
    """The outputs of one request on their way to the task that waits for them."""

    __slots__ = ("_come", "_waiter", "number")

    def __init__(self) -> None:
        self.number: int | None = None
        self._come: list[_quire.RequestRecord] = []
        self._waiter: asyncio.Future[None] | None = None

    def put(self, record: _quire.RequestRecord) -> None:
        self._come.append(record)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[_quire.RequestRecord]:
        """All that has come since, one at least."""
        while not self._come:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        come, self._come = self._come, []
        return come


class _Link:
    """An engine's outputs in one event loop: the loop watches a descriptor, so that what the engine
    gives at once wakes it once, and a task that is slow gets what has come since in one piece."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inbox = _quire.Inbox(whole=False, with_descriptor=True)
        self._streams: dict[int, _Stream] = {}
        # The loop holds what it calls: the link ends with it.
        loop.add_reader(self._inbox.fileno(), self._drain)

    @property
    def inbox(self) -> _quire.Inbox:
        return self._inbox

    def _drain(self) -> None:
        records: list[_quire.RequestRecord] = []
        self._inbox.take_into(records, 0.0)
        for record in records:
            stream = self._streams.get(record.key)
            if stream is not None:
                stream.put(record)

    def open(self, key: int) -> _Stream:
        stream = self._streams[key] = _Stream()
        return stream

    def forget(self, key: int) -> None:
        self._streams.pop(key, None)


class _Growing:
    """A request's outputs as they grow."""

    class _Part:
        __slots__ = (
            "finish_reason",
            "forced_tokens",
            "logprobs",
            "stop_reason",
            "sum",
            "text",
            "token_ids",
        )

        def __init__(self) -> None:
            self.text = ""
            self.token_ids: list[int] = []
            self.logprobs: LogprobsList | None = None
            self.forced_tokens: list[bool] | None = None
            self.sum: float | None = None
            self.finish_reason: str | None = None
            self.stop_reason: int | str | None = None

    def __init__(self, client: Client, request_id: str, prompt: Prompt, kind: RequestOutputKind) -> None:
        self._client = client
        self._request_id = request_id
        self._prompt = prompt
        self._delta = kind is RequestOutputKind.DELTA
        self._parts: dict[int, _Growing._Part] = {}
        self._prompt_logprobs: list[Any] | None = None
        self._step_time = 0.0

    def add(self, records: list[_quire.RequestRecord]) -> RequestOutput:
        """Takes in what has come; the request as it is now, or what is new of it."""
        if self._delta:
            self._parts.clear()
        for record in records:
            self._add(record)
        return self._output(records[-1])

    def _add(self, record: _quire.RequestRecord) -> None:
        self._step_time += record.step_time
        for output in record.outputs:
            part = self._parts.get(output.index)
            if part is None:
                part = self._parts[output.index] = self._Part()
            part.text += output.text
            part.token_ids += output.token_ids
            logprobs = self._client._logprobs(output.logprobs)
            if logprobs is not None:
                part.logprobs = (part.logprobs or []) + logprobs
                part.sum = output.cumulative_logprob
            if output.forced_tokens is not None:
                part.forced_tokens = (part.forced_tokens or []) + output.forced_tokens
            part.finish_reason = output.finish_reason
            part.stop_reason = output.stop_reason
        entries = self._client.prompt_logprobs(record)
        if entries is not None:
            self._prompt_logprobs = entries

    def _output(self, record: _quire.RequestRecord) -> RequestOutput:
        return RequestOutput(
            self._request_id,
            self._prompt.text,
            self._prompt.token_ids,
            self._prompt_logprobs,
            [
                CompletionOutput(
                    index,
                    part.text,
                    part.token_ids,
                    part.sum,
                    part.logprobs,
                    part.finish_reason,
                    part.stop_reason,
                    part.forced_tokens,
                )
                for index, part in sorted(self._parts.items())
            ],
            record.finished,
            self._client.metrics(record, self._step_time),
            record.num_cached_tokens if record.finished else None,
        )


class AsyncLLM:
    """A model in this process for programs with an event loop; settings are those of ``LLM``.

    ``async for output in engine.generate(prompt, params, request_id)`` gives the growing output;
    its ``finished`` is true at the end. Leaving the loop or cancelling the task ends the request.
    """

    def __init__(self, model: str = "", **settings: Any) -> None:
        self._client = Client({"model": str(model), **settings})
        self._links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Link]
        self._links = weakref.WeakKeyDictionary()
        self._running: dict[str, set[int]] = {}

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> AsyncLLM:
        """An engine with these settings."""
        return cls(args.model, **args.settings)

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            link = self._links[loop] = _Link(loop)
        return link

    async def _records(
        self,
        prompt: Prompt,
        params: _quire.Params,
        request_id: str,
        priority: int | None,
        embed: bool,
        processors: ProcessorChain | None = None,
    ) -> AsyncIterator[list[_quire.RequestRecord]]:
        link = self._link()
        key = self._client.new_key()
        stream = link.open(key)
        finished = False
        numbers = self._running.setdefault(request_id, set())
        try:
            stream.number = self._client.submit(
                link.inbox, key, prompt, params, request_id,
                priority=priority, embed=embed, processors=processors,
            )
            numbers.add(stream.number)
            while not finished:
                come = await stream.take()
                finished = come[-1].finished
                for record in come:
                    error = self._client.error_of(record, processors)
                    if error is not None:
                        raise error
                yield come
        finally:
            link.forget(key)
            if stream.number is not None:
                numbers.discard(stream.number)
                if not finished:
                    self._client.abort(stream.number)
            if not numbers and self._running.get(request_id) is numbers:
                del self._running[request_id]

    async def generate(
        self,
        prompt: PromptType,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int | None = None,
    ) -> AsyncIterator[RequestOutput]:
        """The growing output, or only the new part each time (``SamplingParams.output_kind``).

        Errors: ``InvalidArgumentError`` for an invalid prompt or parameter,
        ``ResourceExhaustedError`` if the engine's queue is full (``max_queued_requests``).
        """
        params = self._client.default_params() if sampling_params is None else sampling_params
        name = self._client.new_request_id() if request_id is None else request_id
        read = self._client.read_prompt(prompt)
        growing = _Growing(self._client, name, read, params.output_kind)
        final_only = params.output_kind is RequestOutputKind.FINAL_ONLY
        chain = ProcessorChain.of(params.logits_processors)
        records = self._records(read, params._native(), name, priority, False, chain)
        async with contextlib.aclosing(records):  # type: ignore[type-var]
            async for come in records:
                output = growing.add(come)
                if output.finished or not final_only:
                    yield output

    async def encode(
        self,
        prompt: PromptType,
        pooling_params: PoolingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int | None = None,
    ) -> AsyncIterator[PoolingRequestOutput]:
        """The pooled hidden state of a prompt: one output."""
        params = pooling_params or PoolingParams()
        self._client.check_dimensions(params)
        name = self._client.new_request_id() if request_id is None else request_id
        read = self._client.read_prompt(prompt)
        records = self._records(read, SamplingParams()._native(), name, priority, True)
        async with contextlib.aclosing(records):  # type: ignore[type-var]
            async for come in records:
                if come[-1].finished:
                    yield self._client.pooling_output(come[-1], name, read, params)

    async def abort(self, request_id: str) -> None:
        """Ends the requests with this id; their streams get a last output with ``"abort"``."""
        for number in list(self._running.get(request_id, ())):
            self._client.abort(number)

    async def reset_prefix_cache(self) -> None:
        """Empties the prefix cache, except for blocks that running requests use."""
        self._client.engine.reset_prefix_cache()

    async def update_weights(self, weights: Weights) -> None:
        """Replaces tensors, as ``LLM.update_weights`` does, while no request runs or waits."""
        await asyncio.to_thread(self._client.update_weights, weights)

    async def sleep(self, level: int = 1) -> None:
        """Releases memory and threads until ``wake_up()``, as ``LLM.sleep`` does."""
        await asyncio.to_thread(self._client.sleep, level)

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Loads the checkpoint again after ``sleep()``."""
        await asyncio.to_thread(self._client.wake_up, tags)

    async def is_sleeping(self) -> bool:
        """Whether ``sleep()`` was called since the last ``wake_up()``."""
        return self._client.is_sleeping

    async def get_tokenizer(self) -> Tokenizer:
        """The tokenizer of the engine."""
        return Tokenizer(self._client.engine)

    async def check_health(self) -> None:
        """``UnavailableError`` if the engine has ended."""
        if self._client.closed:
            raise UnavailableError("the engine is closed")

    @property
    def info(self) -> dict[str, Any]:
        """Sizes and settings of the engine."""
        return dict(self._client.info)

    def shutdown(self) -> None:
        """Closes its server if it has one, ends running requests, and releases memory and threads."""
        self._client.close()

    close = shutdown

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *details: object) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        closed = ", closed" if self._client.closed else ""
        return f"{type(self).__name__}({self._client.info['model']!r}{closed})"


AsyncLLMEngine = AsyncLLM
