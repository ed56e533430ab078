import enum
from collections.abc import Mapping, Sequence
from typing import Any

from quire import _quire
from quire._processors import LogitsProcessor
from quire.structured_outputs import StructuredOutputsParams

class RequestOutputKind(enum.Enum):
    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2

class SamplingParams:
    """How a request is continued; help(quire.SamplingParams) says what each parameter does."""

    n: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    bad_words: Sequence[str] | None
    include_stop_str_in_output: bool
    ignore_eos: bool
    max_tokens: int | None
    min_tokens: int
    logprobs: int | None
    prompt_logprobs: int | None
    skip_special_tokens: bool
    logit_bias: Mapping[int, float] | None
    allowed_token_ids: Sequence[int] | None
    structured_outputs: StructuredOutputsParams | Mapping[str, Any] | None
    ensure_close: bool
    return_forced_tokens: bool
    beam_width: int
    length_penalty: float
    early_stopping: bool | str
    logits_processors: Sequence[LogitsProcessor] | None
    output_kind: RequestOutputKind
    def __init__(
        self,
        *,
        n: int = 1,
        presence_penalty: float = 0,
        frequency_penalty: float = 0,
        repetition_penalty: float = 1,
        temperature: float = 1,
        top_p: float = 1,
        top_k: int = 0,
        min_p: float = 0,
        seed: int | None = None,
        stop: str | Sequence[str] | None = None,
        stop_token_ids: Sequence[int] | None = None,
        bad_words: Sequence[str] | None = None,
        include_stop_str_in_output: bool = False,
        ignore_eos: bool = False,
        max_tokens: int | None = 16,
        min_tokens: int = 0,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        skip_special_tokens: bool = True,
        logit_bias: Mapping[int, float] | None = None,
        allowed_token_ids: Sequence[int] | None = None,
        structured_outputs: StructuredOutputsParams | Mapping[str, Any] | None = None,
        ensure_close: bool = False,
        return_forced_tokens: bool = False,
        beam_width: int = 0,
        length_penalty: float = 1,
        early_stopping: bool | str = False,
        guided_decoding: StructuredOutputsParams | Mapping[str, Any] | None = None,
        logits_processors: Sequence[LogitsProcessor] | None = None,
        output_kind: RequestOutputKind = ...,
    ) -> None: ...
    def clone(self) -> SamplingParams: ...
    def _native(self) -> _quire.Params: ...

class PoolingParams:
    normalize: bool | None
    dimensions: int | None
    def __init__(self, *, normalize: bool | None = None, dimensions: int | None = None) -> None: ...
