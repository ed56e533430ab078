"""What requests give: the shapes are vLLM's, and arrays show the same numbers without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire import _quire

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "CompletionOutput",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "Logprob",
    "LogprobArrays",
    "PoolingOutput",
    "PoolingRequestOutput",
    "RequestMetrics",
    "RequestOutput",
    "ScoringOutput",
    "ScoringRequestOutput",
]


@dataclass(frozen=True)
class Logprob:
    """A token's natural log probability, its rank (1: the most probable) and its text."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass(frozen=True)
class RequestMetrics:
    """Instants in seconds on the engine's own clock, so only their differences mean something.

    ``step_time``: seconds of the engine's steps that are this request's, each step divided among the
    outputs in it by the tokens that it computes for each; of the outputs that have ended. ``cost``: what
    that costs in US dollars, once the request has ended, with ``price_per_hour=`` of ``LLM``.
    """

    arrival_time: float
    first_scheduled_time: float | None = None
    first_token_time: float | None = None
    finished_time: float | None = None
    num_preemptions: int = 0
    step_time: float = 0.0
    cost: float | None = None

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from the arrival to the first token."""
        if self.first_token_time is None:
            return None
        return self.first_token_time - self.arrival_time

    @property
    def total_time(self) -> float | None:
        """Seconds from the arrival to the end."""
        return None if self.finished_time is None else self.finished_time - self.arrival_time


class LogprobArrays:
    """Log probabilities by columns, as read-only numpy arrays over the engine's own memory.

    ``token_ids``, ``logprobs`` and ``ranks`` have shape (tokens,); ``top_token_ids``,
    ``top_logprobs`` and ``top_ranks`` have shape (tokens, alternatives), best first. A token id of
    -1 stands where the vocabulary has no further token.
    """

    __slots__ = ("_columns",)

    def __init__(self, columns: _quire.Logprobs) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def token_ids(self) -> npt.NDArray[np.int32]:
        return self._columns.token_ids

    @property
    def logprobs(self) -> npt.NDArray[np.float32]:
        return self._columns.logprobs

    @property
    def ranks(self) -> npt.NDArray[np.int32]:
        return self._columns.ranks

    @property
    def top_token_ids(self) -> npt.NDArray[np.int32]:
        return self._columns.top_token_ids

    @property
    def top_logprobs(self) -> npt.NDArray[np.float32]:
        return self._columns.top_logprobs

    @property
    def top_ranks(self) -> npt.NDArray[np.int32]:
        return self._columns.top_ranks


LogprobsList = list[dict[int, Logprob]]


class CompletionOutput:
    """One of a request's outputs.

    ``finish_reason``: ``"stop"``, ``"length"``, ``"abort"``, or None while it goes on.
    ``stop_reason``: the stop string that matched or the token id that ended it, else None.
    ``logprobs``: for each token a dict from token ids to ``Logprob``, the token's own first; None
    where ``SamplingParams.logprobs`` asks for none.
    ``forced_tokens``: for each token whether structured outputs left no other; None where
    ``SamplingParams.return_forced_tokens`` does not ask for it.
    """

    __slots__ = (
        "_record",
        "_token_ids",
        "cumulative_logprob",
        "finish_reason",
        "forced_tokens",
        "index",
        "logprobs",
        "stop_reason",
        "text",
    )

    def __init__(
        self,
        index: int,
        text: str,
        token_ids: Sequence[int] | None,
        cumulative_logprob: float | None = None,
        logprobs: LogprobsList | None = None,
        finish_reason: str | None = None,
        stop_reason: int | str | None = None,
        forced_tokens: list[bool] | None = None,
        record: _quire.OutputRecord | None = None,
    ) -> None:
        self.index = index
        self.text = text
        self._token_ids = None if token_ids is None else list(token_ids)
        self.cumulative_logprob = cumulative_logprob
        self.logprobs = logprobs
        self.finish_reason = finish_reason
        self.stop_reason = stop_reason
        self.forced_tokens = forced_tokens
        self._record = record

    @property
    def token_ids(self) -> list[int]:
        """The tokens, with the one that ended the output."""
        if self._token_ids is None:
            assert self._record is not None
            self._token_ids = self._record.token_ids
        return self._token_ids

    @property
    def token_ids_array(self) -> npt.NDArray[np.int32]:
        """The same as a numpy array of shape (tokens,); a view where the engine's memory is there."""
        if self._record is not None:
            return self._record.token_ids_array
        import numpy

        return numpy.asarray(self.token_ids, dtype=numpy.int32)

    @property
    def logprob_arrays(self) -> LogprobArrays | None:
        """The log probabilities as arrays, of an output of ``LLM.generate`` that was not unpickled."""
        columns = None if self._record is None else self._record.logprobs
        return None if columns is None else LogprobArrays(columns)

    def finished(self) -> bool:
        """Whether it has ended."""
        return self.finish_reason is not None

    def _values(self) -> tuple[Any, ...]:
        return (
            self.index,
            self.text,
            self.token_ids,
            self.cumulative_logprob,
            self.logprobs,
            self.finish_reason,
            self.stop_reason,
            self.forced_tokens,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return CompletionOutput, self._values()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompletionOutput):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"CompletionOutput(index={self.index}, text={self.text!r}, token_ids={self.token_ids}, "
            f"cumulative_logprob={self.cumulative_logprob}, logprobs={self.logprobs}, "
            f"finish_reason={self.finish_reason!r}, stop_reason={self.stop_reason!r}, "
            f"forced_tokens={self.forced_tokens})"
        )

    def _repr_html_(self) -> str:
        from quire._html import completion_html

        return completion_html(self)


@dataclass
class RequestOutput:
    """A request with its outputs, one for each of ``SamplingParams.n``.

    ``num_cached_tokens``: of the prompt, those that were taken from the prefix cache; known at the
    end. ``prompt_logprobs``: None for the first token, then a dict for each.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput]
    finished: bool
    metrics: RequestMetrics | None = None
    num_cached_tokens: int | None = None

    @property
    def aborted(self) -> bool:
        """Whether it was ended before it was done."""
        return any(output.finish_reason == "abort" for output in self.outputs)

    def _repr_html_(self) -> str:
        from quire._html import request_html

        return request_html(self)


class _Vector:
    """Numbers of the engine, as a list and as an array without a copy."""

    __slots__ = ("_values", "_vector")

    def __init__(self, values: list[float] | None, vector: _quire.EmbeddingVector | None = None) -> None:
        self._values = values
        self._vector = vector

    def _list(self) -> list[float]:
        if self._values is None:
            assert self._vector is not None
            self._values = self._vector.values
        return self._values

    def _array(self) -> npt.NDArray[np.float32]:
        if self._vector is not None:
            return self._vector.array
        import numpy

        return numpy.asarray(self._list(), dtype=numpy.float32)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._list(),)


class EmbeddingOutput(_Vector):
    """``embedding``: a list of floats; ``array``: the same as float32, shape (hidden size,)."""

    __slots__ = ()

    @property
    def embedding(self) -> list[float]:
        return self._list()

    @property
    def array(self) -> npt.NDArray[np.float32]:
        return self._array()

    @property
    def hidden_size(self) -> int:
        return len(self._list())

    def __repr__(self) -> str:
        return f"EmbeddingOutput(hidden_size={self.hidden_size})"


class PoolingOutput(_Vector):
    """``data``: the pooled hidden state, float32 of shape (hidden size,)."""

    __slots__ = ()

    @property
    def data(self) -> npt.NDArray[np.float32]:
        return self._array()

    def __repr__(self) -> str:
        return f"PoolingOutput(hidden_size={len(self._list())})"


@dataclass
class EmbeddingRequestOutput:
    """An embedding of one prompt."""

    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: list[int]
    finished: bool = True


@dataclass
class PoolingRequestOutput:
    """The pooled hidden state of one prompt."""

    request_id: str
    outputs: PoolingOutput
    prompt_token_ids: list[int]
    finished: bool = True


@dataclass(frozen=True)
class ScoringOutput:
    """How close two texts are: the cosine of their embeddings."""

    score: float


@dataclass
class ScoringRequestOutput:
    """The score of one pair."""

    request_id: str
    outputs: ScoringOutput
    prompt_token_ids: list[int]
    finished: bool = True
