"""The model ``quire`` of EleutherAI's lm-evaluation-harness.

    python -m quire.lm_eval run --model quire --model_args pretrained=MODEL,max_model_len=2048 --tasks ...

is the harness's own command line with this model in its registry. ``model_args`` are the settings of
``LLM``; ``pretrained`` or ``model`` names the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from quire.errors import InvalidArgumentError
from quire.llm import LLM
from quire.sampling_params import SamplingParams

__all__ = ["QuireLM"]

# What the harness passes to every model and means nothing here.
_UNUSED = ("batch_size", "device", "max_batch_size")


@register_model("quire")
class QuireLM(TemplateLM):  # type: ignore[misc]
    """Scores continuations by the engine's log probabilities of prompt tokens."""

    def __init__(
        self,
        pretrained: str = "",
        model: str = "",
        max_gen_toks: int = 256,
        add_bos_token: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        for name in _UNUSED:
            settings.pop(name, None)
        self._llm = LLM(pretrained or model, **settings)
        self._text = self._llm.get_tokenizer()
        self._max_length = int(self._llm.info["max_model_len"])
        self._max_gen_toks = int(max_gen_toks)
        self._add_bos = add_bos_token

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: Any = None) -> QuireLM:
        from lm_eval.utils import simple_parse_args_string

        return cls(**{**simple_parse_args_string(arg_string), **(additional_config or {})})

    @property
    def eot_token_id(self) -> int:
        end = self._text.eos_token_id
        if end is None:
            raise InvalidArgumentError("the model has no token that ends a text")
        return end

    @property
    def prefix_token_id(self) -> int:
        start = self._text.bos_token_id
        return self.eot_token_id if start is None else start

    @property
    def tokenizer_name(self) -> str:
        return str(self._llm.info["model"])

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        special = self._add_bos if add_special_tokens is None else add_special_tokens
        if special is None:  # as the tokenizer does by itself, but not twice
            start = self._text.bos_token
            special = start is None or not string.startswith(start)
        return self._text.encode(string, special)

    def apply_chat_template(
        self, chat_history: Sequence[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        prompt = self._text.apply_chat_template(
            chat_history,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
            tokenize=False,
        )
        assert isinstance(prompt, str)
        return prompt

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        most = self._max_length - 1
        prompts = [
            {"prompt_token_ids": (context + continuation)[-most:]}
            for _, context, continuation in requests
        ]
        params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
        outputs = self._llm.generate(prompts, params, use_tqdm=not disable_tqdm)
        scores = []
        for (texts, _, continuation), output in zip(requests, outputs):
            assert output.prompt_logprobs is not None
            total, greedy = 0.0, True
            scored = min(len(continuation), len(output.prompt_token_ids) - 1)
            for token, entries in zip(
                output.prompt_token_ids[-scored:], output.prompt_logprobs[-scored:]
            ):
                assert entries is not None
                total += entries[token].logprob
                greedy = greedy and entries[token].rank == 1
            scores.append((total, greedy))
            self.cache_hook.add_partial("loglikelihood", texts, scores[-1])
        return scores

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        totals = []
        for request in requests:
            (text,) = request.args
            windows = [
                make_disjoint_window(window)
                for window in get_rolling_token_windows(
                    token_list=self.tok_encode(text),
                    prefix_token=self.prefix_token_id,
                    max_seq_len=self._max_length - 2,
                    context_len=1,
                )
            ]
            scores = self._loglikelihood_tokens(
                [(("", text), context, continuation) for context, continuation in windows], True
            )
            totals.append(sum(score for score, _ in scores))
        return totals

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        prompts, params = [], []
        for request in requests:
            context, options = request.args
            options = dict(options)
            until = options.pop("until", None) or []
            until = [until] if isinstance(until, str) else list(until)
            max_tokens = int(options.pop("max_gen_toks", options.pop("max_new_tokens", self._max_gen_toks)))
            sample = options.pop("do_sample", None)
            temperature = 0 if sample is False else options.pop("temperature", 0)
            options.pop("temperature", None)
            ids = self.tok_encode(context)[-(self._max_length - max_tokens - 1) :]
            prompts.append({"prompt_token_ids": ids})
            params.append(
                SamplingParams(temperature=temperature, max_tokens=max_tokens, stop=until or None, **options)
            )
        outputs = self._llm.generate(prompts, params, use_tqdm=not disable_tqdm)
        texts = [output.outputs[0].text for output in outputs]
        for request, text in zip(requests, texts):
            self.cache_hook.add_partial("generate_until", request.args, text)
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    # As a program this module is __main__; the registry has the class of that one.
    cli_evaluate()
