"""Constraints on the text of an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["GuidedDecodingParams", "StructuredOutputsParams"]


@dataclass
class StructuredOutputsParams:
    """Exactly one of ``json`` (a JSON Schema, as a dict or as text), ``regex`` (which the whole text
    matches), ``choice`` (one of these texts), ``grammar`` (GBNF, EBNF or Lark), ``json_object`` (any) and
    ``structural_tag``; names are vLLM's. For JSON, ``disable_any_whitespace``,
    ``disable_additional_properties`` and ``whitespace_pattern`` restrict its spelling.

    Errors in it come where ``SamplingParams`` is made (which fields there are) or a request is submitted
    (what a schema or a grammar says).
    """

    json: str | Mapping[str, Any] | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """What is set, as the field ``structured_outputs`` of a request has it."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None and value is not False}


class GuidedDecodingParams(StructuredOutputsParams):
    """The same under its former name: ``SamplingParams(guided_decoding=...)``."""
