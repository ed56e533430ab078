"""A model's tokenizer: the one that the engine runs with, under the names of ``transformers``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quire import _quire

__all__ = ["Tokenizer"]


class Tokenizer:
    """Text to token ids and back. ``LLM.get_tokenizer()`` gives an engine's, which ends with it;
    ``Tokenizer.open(model)`` reads one without loading weights."""

    def __init__(self, source: _quire.Engine | _quire.TextModel) -> None:
        self._source = source

    @classmethod
    def open(cls, model: str) -> Tokenizer:
        """Of a folder, a ``.gguf`` file or a name of the Hugging Face hub; "" is the bundled model."""
        return cls(_quire.TextModel(str(model)))

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of ``text``. With ``parse_special`` control tokens spelled in it count."""
        return self._source.encode(text, add_special_tokens, parse_special)

    def decode(self, token_ids: int | Iterable[int], skip_special_tokens: bool = False) -> str:
        """The text of ids; U+FFFD stands for bytes that are no characters."""
        ids = [token_ids] if isinstance(token_ids, int) else [int(each) for each in token_ids]
        return self._source.decode(ids, skip_special_tokens)

    def batch_decode(
        self, sequences: Iterable[Iterable[int]], skip_special_tokens: bool = False
    ) -> list[str]:
        """``decode`` of each."""
        return [self.decode(each, skip_special_tokens) for each in sequences]

    def __call__(self, text: str | Sequence[str], add_special_tokens: bool = True) -> dict[str, Any]:
        """``{"input_ids": ..., "attention_mask": ...}`` of a text or of each of several."""
        if isinstance(text, str):
            ids = self.encode(text, add_special_tokens)
            return {"input_ids": ids, "attention_mask": [1] * len(ids)}
        many = [self.encode(each, add_special_tokens) for each in text]
        return {"input_ids": many, "attention_mask": [[1] * len(ids) for ids in many]}

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Tokens as published (``"Ġthe"``); "" for an id outside the vocabulary."""
        return self._source.token_texts(list(ids))

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of a token as published."""
        return self._source.find_token(token)

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        **kwargs: Any,
    ) -> list[int] | str:
        """The prompt of a conversation, as ids, or as text without ``tokenize``. Other keywords
        are the template's own (``chat_template_kwargs``)."""
        chat = chat_json(
            conversation,
            tools=tools,
            documents=documents,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            chat_template_kwargs=kwargs,
        )
        return self._source.encode_chat(chat, False) if tokenize else self._source.render_chat(chat)

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return self._source.vocab_size()

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def eos_token_ids(self) -> list[int]:
        """The ids that end an output."""
        return self._source.eos_ids()

    @property
    def eos_token_id(self) -> int | None:
        """The first of them."""
        return next(iter(self.eos_token_ids), None)

    @property
    def bos_token_id(self) -> int | None:
        return self._source.bos_id()

    @property
    def eos_token(self) -> str | None:
        """As published."""
        return None if self.eos_token_id is None else self.convert_ids_to_tokens([self.eos_token_id])[0]

    @property
    def bos_token(self) -> str | None:
        """As published."""
        return None if self.bos_token_id is None else self.convert_ids_to_tokens([self.bos_token_id])[0]

    @property
    def all_special_ids(self) -> list[int]:
        """Control and unknown tokens."""
        return self._source.special_ids()


def chat_json(conversation: Sequence[Mapping[str, Any]], **options: Any) -> str:
    """A conversation as the engine reads it."""
    chat: dict[str, Any] = {"messages": [dict(message) for message in conversation]}
    chat.update({name: value for name, value in options.items() if value not in (None, {}, [])})
    return json.dumps(chat)
