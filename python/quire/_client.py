"""An engine with what ``LLM`` and ``AsyncLLM`` have in common: prompts in, outputs out."""

from __future__ import annotations

import itertools
import json
import operator
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypedDict, Union

from quire import _life, _quire
from quire._processors import ProcessorChain
from quire.errors import (
    CancelledError,
    InvalidArgumentError,
    UnavailableError,
    UnimplementedError,
)
from quire.outputs import (
    CompletionOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    Logprob,
    LogprobsList,
    PoolingOutput,
    PoolingRequestOutput,
    RequestMetrics,
    RequestOutput,
)
from quire.sampling_params import PoolingParams, SamplingParams

__all__ = ["Client", "Prompt", "PromptType", "TextPrompt", "TokensPrompt", "is_one_prompt"]


class _QueueFields(TypedDict, total=False):
    """How a request stands among others, as in a line of ``quire generate --input``."""

    priority: int  #: lower goes first, with scheduling_policy="priority"
    user: str  #: whose share it takes, with scheduling_policy="fair"
    deadline_ms: float  #: until its output begins, with scheduling_policy="deadline"
    cache_salt: str  #: it finds in the prefix cache what those with the same one have left


class TextPrompt(_QueueFields):
    """A prompt as text."""

    prompt: str


class TokensPrompt(_QueueFields):
    """A prompt as token ids."""

    prompt_token_ids: list[int]


#: Tensors by name: pairs, or a dict.
Weights = Union[Iterable[tuple[str, Any]], Mapping[str, Any]]

PromptType = Union[str, Sequence[int], TextPrompt, TokensPrompt, Mapping[str, Any]]


# The names of _QueueFields, from the engine's own table.
_QUEUE_FIELDS = frozenset(json.loads(_quire.queue_properties()))


class Prompt:
    """A prompt with its tokens, and ``queue``, what of _QueueFields it has."""

    __slots__ = ("queue", "text", "token_ids")

    def __init__(
        self, text: str | None, token_ids: list[int], queue: Mapping[str, Any] | None = None
    ) -> None:
        self.text = text
        self.token_ids = token_ids
        self.queue: Mapping[str, Any] = {} if queue is None else queue


def is_one_prompt(prompts: Any) -> bool:
    """Whether it is a prompt rather than several."""
    if isinstance(prompts, (str, Mapping)):
        return True
    first = next(iter(prompts), None)
    return hasattr(first, "__index__")


def _token_ids(ids: Sequence[int], where: str) -> list[int]:
    """What the engine can take as ids; whether they are in the vocabulary it says itself."""
    read = [operator.index(each) for each in ids]
    if read and not (-(2**31) <= min(read) and max(read) < 2**31):
        raise InvalidArgumentError(f"{where}: {max(read, key=abs)} is no token id")
    return read


class ClosableServer(Protocol):
    """What ``serve()`` gives."""

    url: str

    def close(self, timeout: float | None = None) -> None: ...


class Client:
    """One engine. ``settings`` are those of ``LLM``."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _life.start_logs()
        given = {name: value for name, value in settings.items() if value is not None}
        price = str(given.pop("price_per_hour", ""))
        self.price_per_hour: float | None = _quire.read_price(price)
        try:
            text = json.dumps(given, default=str)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"settings: {error}") from error
        self._settings = text
        self._keys = itertools.count()
        self._default_params: SamplingParams | None = None
        self._lock = threading.RLock()
        self._server: ClosableServer | None = None
        self._load()
        self.info: dict[str, Any] = json.loads(self.engine.info())

    def _load(self) -> None:
        self._engine = _quire.Engine(self._settings)
        _life.remember(self._engine)
        self._asleep = False
        self._has_new_weights = False

    @property
    def engine(self) -> _quire.Engine:
        """``UnavailableError`` while it sleeps."""
        if self._asleep:
            raise UnavailableError("the engine sleeps", "wake it: wake_up()")
        return self._engine

    @property
    def closed(self) -> bool:
        return self._engine.closed and not self._asleep

    def close(self) -> None:
        server = self._server
        if server is not None:
            server.close(0)
        self._asleep = False
        self._engine.close()

    def check_servable(self) -> None:
        """``UnavailableError`` where no server can use it."""
        self.engine.info()  # not if it is closed, or another process's
        if self._server is not None:
            raise UnavailableError(
                f"the engine has a server already, at {self._server.url}", "close that first"
            )

    def take_server(self, server: ClosableServer) -> None:
        """``close()`` closes it first. ``UnavailableError`` where there is another."""
        with self._lock:
            self.check_servable()
            self._server = server

    def leave_server(self, server: ClosableServer) -> None:
        """It has ended."""
        with self._lock:
            if self._server is server:
                self._server = None

    @property
    def is_sleeping(self) -> bool:
        return self._asleep

    def sleep(self, level: int) -> None:
        """As ``LLM.sleep``."""
        if level not in (1, 2):
            raise InvalidArgumentError(f"sleep: level: {level} is not 1 or 2")
        with self._lock:
            if self._asleep:
                return
            if self._server is not None:
                raise UnavailableError(
                    f"sleep: the engine answers for the server at {self._server.url}", "close that first"
                )
            stats = json.loads(self.engine.stats())
            if stats["num_running"] + stats["num_waiting"] > 0:
                raise UnavailableError("sleep: requests run or wait", "call it when they have ended")
            if level == 1 and self._has_new_weights:
                raise UnavailableError(
                    "sleep: weights were replaced, and would be lost", "sleep(level=2) lets them go"
                )
            if level == 1 and stats["num_pins"] > 0:
                raise UnavailableError(
                    f"sleep: {stats['num_pins']} prefixes are pinned, and would be lost",
                    "sleep(level=2) lets them go, and so does reset_prefix_cache()",
                )
            self._engine.close()
            self._asleep = True

    def wake_up(self, tags: Sequence[str] | None) -> None:
        """As ``LLM.wake_up``."""
        if tags is not None and set(tags) != {"weights", "kv_cache"}:
            raise UnimplementedError("wake_up: Quire wakes as a whole", "leave tags out")
        with self._lock:
            if self._asleep:
                self._load()

    def update_weights(self, weights: Weights) -> None:
        """As ``LLM.update_weights``."""
        pairs: Any = weights.items() if isinstance(weights, Mapping) else weights
        tensors = []
        for name, tensor in pairs:
            if hasattr(tensor, "detach"):  # torch: no copy where it lies in this machine's memory
                tensor = tensor.detach().cpu().contiguous()
            elif not hasattr(tensor, "__dlpack__") and not hasattr(tensor, "__array_interface__"):
                raise InvalidArgumentError(
                    f"update_weights: {name}: {type(tensor).__name__} is no array", "give numpy or torch"
                )
            tensors.append((str(name), tensor))
        self.engine.update_weights(tensors)
        self._has_new_weights = True

    def new_key(self) -> int:
        """A number that no other request of this engine has."""
        return next(self._keys)

    @staticmethod
    def new_request_id() -> str:
        return uuid.uuid4().hex

    def default_params(self) -> SamplingParams:
        """The engine's defaults, with those of the model's generation_config.json."""
        with self._lock:
            if self._default_params is None:
                self._default_params = SamplingParams(**json.loads(self.engine.default_params()))
            return self._default_params.clone()

    def read_prompt(self, prompt: PromptType, where: str = "prompt") -> Prompt:
        """Its tokens. ``where`` names it in errors."""
        if isinstance(prompt, str):
            return Prompt(prompt, self.engine.encode(prompt, True, True))
        if isinstance(prompt, Mapping):
            return self._read_dict(prompt, where)
        try:
            return Prompt(None, _token_ids(prompt, where))
        except TypeError:
            raise InvalidArgumentError(
                f"{where}: expected a text, a list of token ids, or a dict with \"prompt\" or "
                f"\"prompt_token_ids\", found {type(prompt).__name__}"
            ) from None

    def _read_dict(self, prompt: Mapping[str, Any], where: str) -> Prompt:
        others = {
            name: value
            for name, value in prompt.items()
            if name not in ("prompt", "prompt_token_ids") and value is not None
        }
        unknown = [name for name in others if name not in _QUEUE_FIELDS]
        if unknown:
            raise UnimplementedError(
                f"{where}: Quire does not take {unknown[0]!r} with a prompt", "leave it out"
            )
        ids = prompt.get("prompt_token_ids")
        text = prompt.get("prompt")
        if ids is not None:
            return Prompt(text, _token_ids(ids, where), others)
        if isinstance(text, str):
            return Prompt(text, self.engine.encode(text, True, True), others)
        raise InvalidArgumentError(f'{where}: a dict needs "prompt" or "prompt_token_ids"')

    def submit(
        self,
        inbox: _quire.Inbox,
        key: int,
        prompt: Prompt,
        params: _quire.Params,
        request_id: str,
        *,
        priority: int | None = None,
        embed: bool = False,
        processors: ProcessorChain | None = None,
    ) -> int:
        """The engine's number of the request, whose outputs go to ``inbox`` under ``key``."""
        queue = dict(prompt.queue)
        if priority is not None:
            if "priority" in queue:
                raise InvalidArgumentError("priority: the prompt and the call have one", "give one")
            queue["priority"] = operator.index(priority)
        try:
            text = json.dumps(queue) if queue else ""
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"prompt: {error}") from error
        return self.engine.submit(
            inbox, key, prompt.token_ids, params, text, embed, request_id, processors
        )

    def abort(self, number: int) -> None:
        """Ends a request; nothing where it has ended."""
        self._engine.abort(number)

    # What a request has given.

    @staticmethod
    def error_of(
        record: _quire.RequestRecord, processors: ProcessorChain | None = None
    ) -> Exception | None:
        """What a request ended with, unless it was done; an exception of its logits processors as it is."""
        error = record.error
        if error is not None and processors is not None and processors.error is not None:
            return processors.error
        if isinstance(error, CancelledError):
            return UnavailableError(
                "the engine was closed while the request ran", "load the model again: LLM(...)"
            )
        return error

    def _logprobs(self, columns: _quire.Logprobs | None) -> LogprobsList | None:
        if columns is None:
            return None
        rows = columns.rows()
        ids = list({entry[0] for row in rows for entry in row})
        texts = dict(zip(ids, self.engine.decode_each(ids)))
        return [
            {token: Logprob(logprob, rank, texts[token]) for token, logprob, rank in row}
            for row in rows
        ]

    def prompt_logprobs(self, record: _quire.RequestRecord) -> list[dict[int, Logprob] | None] | None:
        entries = self._logprobs(record.prompt_logprobs)
        return None if entries is None else [None, *entries]

    def completion(self, output: _quire.OutputRecord) -> CompletionOutput:
        logprobs = self._logprobs(output.logprobs)
        return CompletionOutput(
            output.index,
            output.text,
            None,
            None if logprobs is None else output.cumulative_logprob,
            logprobs,
            output.finish_reason,
            output.stop_reason,
            output.forced_tokens,
            record=output,
        )

    def metrics(self, record: _quire.RequestRecord, step_time: float) -> RequestMetrics:
        """``step_time``: the request's, of which a record has what is new."""
        price = self.price_per_hour
        cost = None if price is None or not record.finished else step_time * price / 3600
        return RequestMetrics(*record.times, step_time=step_time, cost=cost)

    def request_output(
        self, record: _quire.RequestRecord, request_id: str, prompt: Prompt
    ) -> RequestOutput:
        """Of a request that has ended."""
        outputs = [self.completion(output) for output in record.outputs]
        outputs.sort(key=lambda output: output.index)
        return RequestOutput(
            request_id,
            prompt.text,
            prompt.token_ids,
            self.prompt_logprobs(record),
            outputs,
            record.finished,
            self.metrics(record, record.step_time),
            record.num_cached_tokens,
        )

    def pooling_output(
        self, record: _quire.RequestRecord, request_id: str, prompt: Prompt, params: PoolingParams
    ) -> PoolingRequestOutput:
        vector = self._vector(record, params, normalize=bool(params.normalize))
        return PoolingRequestOutput(request_id, PoolingOutput(None, vector), prompt.token_ids)

    def embedding_output(
        self, record: _quire.RequestRecord, request_id: str, prompt: Prompt, params: PoolingParams
    ) -> EmbeddingRequestOutput:
        normalize = params.normalize
        if normalize is None:
            normalize = self.info["normalize_embeddings"]
        vector = self._vector(record, params, normalize=normalize)
        return EmbeddingRequestOutput(request_id, EmbeddingOutput(None, vector), prompt.token_ids)

    def _vector(
        self, record: _quire.RequestRecord, params: PoolingParams, *, normalize: bool
    ) -> _quire.EmbeddingVector:
        return record.embedding(params.dimensions or self.info["hidden_size"], normalize)

    def check_dimensions(self, params: PoolingParams) -> None:
        """InvalidArgumentError where the model's vectors are shorter."""
        size = self.info["hidden_size"]
        if params.dimensions is not None and params.dimensions > size:
            raise InvalidArgumentError(
                f"PoolingParams: dimensions: {params.dimensions} is more than {size}, the length of "
                "this model's vectors"
            )
