"""An engine with what ``LLM`` and ``AsyncLLM`` have in common: prompts in, outputs out."""

from __future__ import annotations

import itertools
import json
import operator
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Union

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


class TextPrompt(TypedDict):
    """A prompt as text."""

    prompt: str


class TokensPrompt(TypedDict):
    """A prompt as token ids."""

    prompt_token_ids: list[int]


#: Tensors by name: pairs, or a dict.
Weights = Union[Iterable[tuple[str, Any]], Mapping[str, Any]]

PromptType = Union[str, Sequence[int], TextPrompt, TokensPrompt, Mapping[str, Any]]


class Prompt:
    """A prompt with its tokens."""

    __slots__ = ("text", "token_ids")

    def __init__(self, text: str | None, token_ids: list[int]) -> None:
        self.text = text
        self.token_ids = token_ids


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


class Client:
    """One engine. ``settings`` are those of ``LLM``."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _life.start_logs()
        given = {name: value for name, value in settings.items() if value is not None}
        try:
            text = json.dumps(given, default=str)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"settings: {error}") from error
        self.engine = _quire.Engine(text)
        _life.remember(self.engine)
        self.info: dict[str, Any] = json.loads(self.engine.info())
        self._keys = itertools.count()
        self._default_params: SamplingParams | None = None
        self._lock = threading.Lock()

    def update_weights(self, weights: Weights) -> None:
        """As ``LLM.update_weights``."""
        pairs: Iterable[tuple[str, Any]] = weights.items() if isinstance(weights, Mapping) else weights
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
        unknown = [
            name
            for name, value in prompt.items()
            if name not in ("prompt", "prompt_token_ids") and value is not None
        ]
        if unknown:
            raise UnimplementedError(
                f"{where}: Quire does not take {unknown[0]!r} with a prompt", "leave it out"
            )
        ids = prompt.get("prompt_token_ids")
        text = prompt.get("prompt")
        if ids is not None:
            return Prompt(text, _token_ids(ids, where))
        if isinstance(text, str):
            return self.read_prompt(text, where)
        raise InvalidArgumentError(f'{where}: a dict needs "prompt" or "prompt_token_ids"')

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
            record=output,
        )

    @staticmethod
    def metrics(record: _quire.RequestRecord) -> RequestMetrics:
        return RequestMetrics(*record.times)

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
            self.metrics(record),
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
