"""Beam search, in vLLM's shape: ``LLM.beam_search`` with ``BeamSearchParams``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.errors import InvalidArgumentError
from quire.outputs import CompletionOutput, LogprobsList, RequestOutput
from quire.sampling_params import SamplingParams

__all__ = ["BeamSearchOutput", "BeamSearchParams", "BeamSearchSequence"]


@dataclass(frozen=True)
class BeamSearchParams:
    """``beam_width`` beams, of ``max_tokens`` tokens at most; the search is transformers'
    (``generate(num_beams=beam_width)``), and so are ``length_penalty`` and ``early_stopping`` (False,
    True or ``"never"``). ``include_stop_str_in_output``: the token that ends a sequence is one of its
    tokens. ``temperature`` is taken and changes nothing: scores are the model's own log probabilities.
    """

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False
    early_stopping: bool | str = False

    def __post_init__(self) -> None:
        if self.beam_width < 1:
            raise InvalidArgumentError(f"BeamSearchParams: beam_width: {self.beam_width} is not at least 1")
        self.sampling_params()

    def sampling_params(self) -> SamplingParams:
        """The same for ``LLM.generate`` and ``AsyncLLM.generate``, which give all beams as outputs."""
        return SamplingParams(
            beam_width=self.beam_width,
            n=self.beam_width,
            max_tokens=self.max_tokens,
            ignore_eos=self.ignore_eos,
            temperature=self.temperature,
            length_penalty=self.length_penalty,
            early_stopping=self.early_stopping,
            logprobs=0,
        )


@dataclass
class BeamSearchSequence:
    """``tokens`` are the prompt's and the output's, and ``text`` is all of them; ``logprobs`` and
    ``cum_logprob`` are the output's."""

    tokens: list[int]
    logprobs: LogprobsList
    cum_logprob: float
    text: str
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class BeamSearchOutput:
    """The best sequence first."""

    sequences: list[BeamSearchSequence] = field(default_factory=list)


def beam_search_output(
    output: RequestOutput, params: BeamSearchParams, decode: Callable[[Sequence[int]], str]
) -> BeamSearchOutput:
    """What ``LLM.generate`` gave for ``params.sampling_params()``."""
    prompt = list(output.prompt_token_ids or [])

    def sequence(found: CompletionOutput) -> BeamSearchSequence:
        tokens: list[int] = list(found.token_ids)
        logprobs: Any = list(found.logprobs or [])
        if found.finish_reason == "stop" and not params.include_stop_str_in_output:
            tokens, logprobs = tokens[:-1], logprobs[:-1]
        return BeamSearchSequence(
            tokens=prompt + tokens,
            logprobs=logprobs,
            cum_logprob=found.cumulative_logprob or 0.0,
            text=decode(prompt + tokens),
            finish_reason=found.finish_reason,
            stop_reason=found.stop_reason,
        )

    return BeamSearchOutput([sequence(found) for found in output.outputs])
