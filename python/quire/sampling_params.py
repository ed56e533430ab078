"""How a request is continued.

The parameters are those of the engine's own table, ``src/core/sampling_table.h``, which also makes the
fields of the server's requests: names, defaults and rules are vLLM's.
"""

from __future__ import annotations

import enum
import inspect
import json
import math
from typing import Any

from quire import _quire
from quire._processors import LogitsProcessor, check_processors
from quire.errors import InvalidArgumentError, UnimplementedError
from quire.structured_outputs import StructuredOutputsParams

__all__ = ["PoolingParams", "RequestOutputKind", "SamplingParams"]

_PROPERTIES: dict[str, dict[str, Any]] = json.loads(_quire.sampling_properties())
_DEFAULTS: dict[str, Any] = {
    name: rules.get("default") for name, rules in _PROPERTIES.items()
} | {"max_tokens": 16}

# Of vLLM's SamplingParams, what is no row of the table, with the values that ask for nothing.
_REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "best_of": ("best_of", (None, 1)),
    "bad_words_token_ids": ("bad words as token ids: give bad_words as text", (None,)),
    "detokenize": ("outputs without text", (None, True)),
    "extra_args": ("extra arguments of plugins", (None, {})),
    "spaces_between_special_tokens": ("texts without spaces between special tokens", (None, True)),
    "truncate_prompt_tokens": ("truncation of prompts", (None,)),
    "use_beam_search": ("use_beam_search: beam_width starts a beam search", (None, False)),
}


class RequestOutputKind(enum.Enum):
    """What an output of ``AsyncLLM.generate`` holds."""

    CUMULATIVE = 0  #: all text and tokens so far
    DELTA = 1  #: what is new since the last
    FINAL_ONLY = 2  #: there is one output, at the end


def _plain(value: Any) -> Any:
    """What ``json`` does not know: numbers and arrays of numpy, ``StructuredOutputsParams``."""
    if isinstance(value, StructuredOutputsParams):
        return value.to_dict()
    for convert in ("tolist", "item"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise TypeError(f"{type(value).__name__} is no value of a sampling parameter")


def _check_name(name: str, value: Any) -> bool:
    """True: a parameter. False: one of vLLM's that asks for nothing. Else an exception."""
    if name in _PROPERTIES or name == "logits_processors":
        return True
    if name in _REFUSED:
        what, nothing = _REFUSED[name]
        if value in nothing:
            return False
        raise UnimplementedError(f"SamplingParams: {name}: Quire does not have {what}", "leave it out")
    raise TypeError(f"SamplingParams has no parameter {name!r}; help(quire.SamplingParams) lists them")


class SamplingParams:
    """How a request is continued; keyword arguments, checked when it is made.

    ``SamplingParams(temperature=0.8, top_p=0.95, max_tokens=200)``. ``max_tokens=None`` goes on to the
    end of the model's context. Without any, ``LLM.generate`` takes the model's own defaults
    (``LLM.get_default_sampling_params``).

    ``structured_outputs``: a ``StructuredOutputsParams``, or a dict like it; ``guided_decoding`` is its
    former name. ``logits_processors``: functions ``(output_token_ids, row)``, called one after the other
    for each token of each output: ``row`` is the model's logits as a float32 array of shape (vocabulary,),
    to be changed in place (or something like it is returned); minus infinity bans a token. It is called
    before all other parameters apply, while nothing else is computed; log probabilities stay the model's.
    Arguments are valid during the call. An exception ends the request, and is raised where it is waited for.

    Objects can be compared, copied, pickled and changed; one may serve any number of requests.
    """

    __slots__ = ("_compiled", "_values", "logits_processors", "output_kind")

    logits_processors: tuple[LogitsProcessor, ...] | None

    def __init__(
        self,
        *,
        output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE,
        logits_processors: Any = None,
        **fields: Any,
    ) -> None:
        values = dict(_DEFAULTS)
        values.update({name: value for name, value in _renamed(fields).items() if _check_name(name, value)})
        self._set(values, output_kind, logits_processors)
        self._native()

    def _set(self, values: dict[str, Any], output_kind: RequestOutputKind, processors: Any) -> None:
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_compiled", None)
        object.__setattr__(self, "output_kind", RequestOutputKind(output_kind))
        object.__setattr__(self, "logits_processors", check_processors(processors))

    def _native(self) -> _quire.Params:
        """What the engine takes; made once."""
        compiled: _quire.Params | None = self._compiled
        if compiled is None:
            given = {name: value for name, value in self._values.items() if value is not None}
            for name, value in given.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise InvalidArgumentError(f"SamplingParams: {name}: {value} is not a finite number")
            compiled = _quire.Params(
                json.dumps(given, default=_plain), to_the_end=self._values["max_tokens"] is None
            )
            object.__setattr__(self, "_compiled", compiled)
        return compiled

    def __getattr__(self, name: str) -> Any:
        if name in _PROPERTIES:
            return self._values[name]
        raise AttributeError(f"SamplingParams has no parameter {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "output_kind":
            object.__setattr__(self, name, RequestOutputKind(value))
        elif name == "logits_processors":
            object.__setattr__(self, name, check_processors(value))
        elif _check_name(name, value):
            self._values[name] = value
            object.__setattr__(self, "_compiled", None)

    def clone(self) -> SamplingParams:
        """A copy that can be changed by itself."""
        return _restore(dict(self._values), self.output_kind, self.logits_processors)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (dict(self._values), self.output_kind, self.logits_processors)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SamplingParams):
            return NotImplemented
        return (
            self._values == other._values
            and self.output_kind is other.output_kind
            and self.logits_processors == other.logits_processors
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changed = ", ".join(
            f"{name}={value!r}" for name, value in self._values.items() if value != _DEFAULTS[name]
        )
        if self.logits_processors is not None:
            changed += f"{', ' if changed else ''}logits_processors={list(self.logits_processors)!r}"
        return f"SamplingParams({changed})"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_PROPERTIES]


def _renamed(fields: dict[str, Any]) -> dict[str, Any]:
    """``guided_decoding`` under its later name."""
    if fields.get("guided_decoding") is None:
        return {name: value for name, value in fields.items() if name != "guided_decoding"}
    if fields.get("structured_outputs") is not None:
        raise InvalidArgumentError(
            "SamplingParams: guided_decoding: structured_outputs constrains the text already", "give one"
        )
    renamed = dict(fields)
    renamed["structured_outputs"] = renamed.pop("guided_decoding")
    return renamed


def _restore(values: dict[str, Any], output_kind: RequestOutputKind, processors: Any) -> SamplingParams:
    params = object.__new__(SamplingParams)
    params._set(values, output_kind, processors)
    params._native()
    return params


# What help() and editors show: one keyword for each row of the table.
SamplingParams.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name])
        for name in _PROPERTIES
    ]
    + [
        inspect.Parameter("logits_processors", inspect.Parameter.KEYWORD_ONLY, default=None),
        inspect.Parameter(
            "output_kind", inspect.Parameter.KEYWORD_ONLY, default=RequestOutputKind.CUMULATIVE
        ),
    ]
)
SamplingParams.__doc__ = (SamplingParams.__doc__ or "") + "\n    Parameters:\n\n" + "".join(
    f"    {name}: {rules.get('description', '')}.\n" for name, rules in _PROPERTIES.items()
)


class PoolingParams:
    """What an embedding is: ``normalize`` scales it to length 1 (default: as the model says),
    ``dimensions`` cuts it to its first values (default: all)."""

    __slots__ = ("dimensions", "normalize")

    def __init__(self, *, normalize: bool | None = None, dimensions: int | None = None) -> None:
        if dimensions is not None and dimensions < 1:
            raise InvalidArgumentError(f"PoolingParams: dimensions: {dimensions} is not at least 1")
        self.normalize = normalize
        self.dimensions = dimensions

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_pooling, (self.normalize, self.dimensions)

    def __repr__(self) -> str:
        return f"PoolingParams(normalize={self.normalize}, dimensions={self.dimensions})"


def _restore_pooling(normalize: bool | None, dimensions: int | None) -> PoolingParams:
    return PoolingParams(normalize=normalize, dimensions=dimensions)
