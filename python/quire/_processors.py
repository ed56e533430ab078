"""``logits_processors``: a user's functions between the model's logits and the choice of a token."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

from quire.errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    LogitsRow = npt.NDArray[np.float32]

__all__ = ["LogitsProcessor", "ProcessorChain", "check_processors"]

LogitsProcessor = Callable[[list[int], "LogitsRow"], Union["LogitsRow", None]]


def _takes_the_prompt(processor: Callable[..., Any]) -> bool:
    """Whether it has vLLM's other form: (prompt_token_ids, output_token_ids, row)."""
    try:
        parameters = inspect.signature(processor).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in positional and each.default is each.empty]
    return len(needed) == 3


def check_processors(value: Any) -> tuple[LogitsProcessor, ...] | None:
    """What ``SamplingParams.logits_processors`` may be; None for none."""
    if value is None:
        return None
    if callable(value) or not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidArgumentError(
            "SamplingParams: logits_processors: expected a list of functions", "give [function]"
        )
    for each in value:
        if isinstance(each, type):
            raise UnimplementedError(
                f"SamplingParams: logits_processors: {each.__name__} is a class: Quire does not have "
                "vLLM's processors of whole batches",
                "give a function (output_token_ids, row)",
            )
        if not callable(each):
            raise InvalidArgumentError(
                f"SamplingParams: logits_processors: {each!r} cannot be called",
                "give functions (output_token_ids, row)",
            )
        if _takes_the_prompt(each):
            raise UnimplementedError(
                f"SamplingParams: logits_processors: {each!r} wants the prompt's token ids, too",
                "give a function (output_token_ids, row), which may know them",
            )
    return tuple(value) or None


class ProcessorChain:
    """The processors of one request, one after the other, as the engine calls them."""

    __slots__ = ("_processors", "error")

    def __init__(self, processors: Sequence[LogitsProcessor]) -> None:
        self._processors = processors
        self.error: Exception | None = None  #: what one of them ended with

    @classmethod
    def of(cls, processors: Sequence[LogitsProcessor] | None) -> ProcessorChain | None:
        """None where there are none."""
        return cls(processors) if processors else None

    def __call__(self, output_token_ids: list[int], row: LogitsRow) -> None:
        try:
            for processor in self._processors:
                changed = processor(output_token_ids, row)
                if changed is None or changed is row:
                    continue
                if getattr(changed, "shape", None) != row.shape:
                    raise InvalidArgumentError(
                        f"logits_processors: {processor!r} returned something of shape "
                        f"{getattr(changed, 'shape', None)}; the row has {row.shape}",
                        "change the row in place, or return one like it",
                    )
                row[:] = changed
        except Exception as error:
            self.error = error
            raise
