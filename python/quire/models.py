"""Models as they lie on the disk, and one-liners."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quire import _quire
from quire.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from quire.llm import LLM
from quire.sampling_params import SamplingParams
from quire.tokenizer import Tokenizer

__all__ = ["inspect", "pipeline", "plan", "tokenize"]


def inspect(model: str = "", **settings: Any) -> dict[str, Any]:
    """What a model is, from its headers alone: what ``quire inspect --json`` prints. ``settings`` are
    those of ``LLM`` that count for the memory plan."""
    given = {name: value for name, value in settings.items() if value is not None}
    report: dict[str, Any] = json.loads(
        _quire.inspect_model(json.dumps({"model": str(model), **given}))
    )
    return report


def plan(model: str = "", **settings: Any) -> dict[str, Any]:
    """What ``LLM(model, **settings)`` would take of this machine's memory, in bytes; nothing is loaded.
    ``ResourceExhaustedError`` with the numbers where it does not fit."""
    report = inspect(model, **settings)
    if "memory_plan_error" in report:
        raise ResourceExhaustedError(report["memory_plan_error"])
    found: dict[str, Any] = report["memory_plan"]
    return found


def tokenize(text: str, model: str = "", add_special_tokens: bool = True) -> list[int]:
    """The token ids of a text by a model's tokenizer, which is read for it: to tokenize many texts,
    use ``Tokenizer.open(model)``."""
    return Tokenizer.open(model).encode(text, add_special_tokens, parse_special=False)


def pipeline(
    task: str = "text-generation", model: str = "", **settings: Any
) -> Callable[..., list[Any]]:
    """A function like that of ``transformers``: ``pipeline("text-generation")("Red is a")`` gives
    ``[{"generated_text": ...}]``, for a list of prompts a list of these. Keywords of a call are those of
    ``SamplingParams``, and ``max_new_tokens``; ``return_full_text`` (True) puts the prompt before the
    text. Messages instead of a text are a chat."""
    if task != "text-generation":
        raise UnimplementedError(f"pipeline: Quire has no task {task!r}", 'it has "text-generation"')
    llm = LLM(model, **settings)

    def run(
        inputs: str | Sequence[Any],
        *,
        return_full_text: bool = True,
        max_new_tokens: int | None = None,
        **sampling: Any,
    ) -> list[Any]:
        if max_new_tokens is not None:
            if "max_tokens" in sampling:
                raise InvalidArgumentError("max_new_tokens and max_tokens say the same", "give one")
            sampling["max_tokens"] = max_new_tokens
        params = SamplingParams(**sampling) if sampling else None
        if not isinstance(inputs, str) and inputs and isinstance(inputs[0], (Mapping, list)):
            messages: Sequence[Any] = inputs
            answers = llm.chat(messages, params, use_tqdm=False)
            return_full_text = False
        else:
            answers = llm.generate(inputs, params, use_tqdm=False)
        made = [
            [{"generated_text": (each.prompt or "" if return_full_text else "") + output.text}
             for output in each.outputs]
            for each in answers
        ]
        return made[0] if isinstance(inputs, str) else made

    run.llm = llm  # type: ignore[attr-defined]
    return run
