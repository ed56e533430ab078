"""``LLM``: many prompts at once, in this process."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Union

from quire import _quire
from quire._batch import Job, run_batch
from quire._client import Client, Prompt, PromptType, Weights, is_one_prompt
from quire._processors import ProcessorChain
from quire.beam_search import BeamSearchOutput, BeamSearchParams, beam_search_output
from quire.errors import ConfigError, InvalidArgumentError, UnimplementedError
from quire.metrics import Metric, engine_metrics
from quire.outputs import (
    EmbeddingRequestOutput,
    PoolingRequestOutput,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)
from quire.sampling_params import PoolingParams, SamplingParams
from quire.tokenizer import Tokenizer, chat_json

__all__ = ["LLM", "Metric", "Timeline"]

Message = Mapping[str, Any]
Params = Union[SamplingParams, Sequence[SamplingParams], None]


class Timeline:
    """Steps of an engine: ``slots``, and ``steps``, each with ``start_s``, ``end_s`` (seconds since the
    first) and ``rows`` of ``slot``, ``request``, ``num_tokens``, ``samples`` and ``wanted``."""

    def __init__(self, data: dict[str, Any], page: str) -> None:
        self.slots: int = data["slots"]
        self.steps: list[dict[str, Any]] = data["steps"]
        self.page = page  #: an HTML page of its own

    def _repr_html_(self) -> str:
        height = 310 + min(self.slots, 64) * (14 if self.slots > 16 else 25)  # what stands above and below
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" style="width:100%;height:{height}px;border:0">'
            "</iframe>"
        )

    def __repr__(self) -> str:
        return f"Timeline({len(self.steps)} steps)"


class LLM:
    """A model in this process, and the engine that runs it.

    ``LLM("HuggingFaceTB/SmolLM2-360M-Instruct")``: a name of the Hugging Face hub (downloaded if
    necessary), a folder in its layout, or a ``.gguf`` file; without a name, the bundled model.

    The settings, given as keywords, are those of ``quire generate --help``: ``tokenizer``,
    ``chat_template`` (a file), ``dtype``, ``kv_cache_dtype``, ``quantization`` (None, "int8", "int4"),
    ``device`` ("cpu", "cuda", "cuda:1"), ``n_gpu_layers`` and ``n_cpu_moe`` (docs/cuda.md), ``threads``,
    ``max_model_len``, ``max_num_seqs``, ``max_num_batched_tokens``, ``block_size``, ``kv_cache_memory_bytes``,
    ``gpu_memory_utilization`` (the share of this machine's memory), ``enable_prefix_caching``,
    ``enable_chunked_prefill``, ``scheduling_policy``, ``batching``, ``max_logprobs``, ``generation_config``,
    ``seed``, ``packed_weights_cache``, ``event_log``, ``kv_offload_path`` and ``kv_offloading_size`` (GiB: docs/kv_offload.md),
    ``speculative_config`` (a dictionary: docs/speculation.md), ``price_per_hour`` (of this machine, in US
    dollars, or a device of ``quire plan --list-devices``: requests then have a cost in ``metrics``). vLLM's
    other settings are accepted if they request nothing (``tensor_parallel_size=1``), and refused by name
    otherwise. ``simulate_step_ms`` makes up tokens and loads no weights.

    Any number of threads may call it at once. Use it as a context manager, or call ``close()``, to
    release its memory and threads.
    """

    def __init__(self, model: str = "", **settings: Any) -> None:
        self._client = Client({"model": str(model), **settings})

    # Text.

    def generate(
        self,
        prompts: PromptType | Sequence[PromptType],
        sampling_params: Params = None,
        use_tqdm: bool | Callable[..., Any] = True,
        *,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """Continues each prompt; the outputs are in the order of the prompts.

        A prompt is a text, a list of token ids, or a dict with ``prompt`` or ``prompt_token_ids``;
        several prompts are a list of these. A dict may have ``priority``, ``user``, ``deadline_ms`` and
        ``cache_salt``, as in a line of ``quire generate --input``; ``priority`` may also be a list with
        one number for each prompt. ``sampling_params``: one for all, one for each, or None for the
        model's own defaults. ``use_tqdm``: a progress bar if tqdm is installed, or a callable that makes one.

        Errors: ``InvalidArgumentError`` for an invalid prompt or parameter, which ends all requests of
        the call. Ctrl-C raises ``GenerationInterrupted`` with the finished outputs.
        """
        many = self._several(prompts)
        prepare = [
            partial(self._client.read_prompt, each, f"prompts[{i}]") for i, each in enumerate(many)
        ]
        return self._generate(prepare, sampling_params, use_tqdm, priority)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: Params = None,
        use_tqdm: bool | Callable[..., Any] = True,
        *,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        priority: Sequence[int] | None = None,
        user: str | None = None,
        deadline_ms: float | None = None,
        cache_salt: str | None = None,
    ) -> list[RequestOutput]:
        """Answers a conversation, or each of several, through the model's chat template.

        ``messages``: dicts with ``role`` and ``content``, or several lists of them. ``tools`` are shown
        to the model by its template. ``continue_final_message`` continues the last message.
        ``user``, ``deadline_ms`` and ``cache_salt`` apply to all conversations, ``priority`` has one number
        for each.
        """
        if chat_template is not None:
            raise UnimplementedError(
                "chat: Quire does not take a chat_template with a call",
                "give it to the engine: LLM(..., chat_template=FILE)",
            )
        several: Sequence[Any] = messages
        if not messages or isinstance(messages[0], Mapping):
            several = [messages]
        if add_generation_prompt is None:
            add_generation_prompt = not continue_final_message
        options = {
            "tools": None if tools is None else [dict(tool) for tool in tools],
            "documents": None if documents is None else [dict(each) for each in documents],
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
            "chat_template_kwargs": None if chat_template_kwargs is None else dict(chat_template_kwargs),
        }
        fields = {"user": user, "deadline_ms": deadline_ms, "cache_salt": cache_salt}
        queue = {name: value for name, value in fields.items() if value is not None}

        def prompt_of(conversation: Sequence[Message]) -> Prompt:
            chat = chat_json(conversation, **options)
            engine = self._client.engine
            return Prompt(engine.render_chat(chat), engine.encode_chat(chat, False), queue)

        prepare = [partial(prompt_of, each) for each in several]
        return self._generate(prepare, sampling_params, use_tqdm, priority)

    def beam_search(
        self,
        prompts: PromptType | Sequence[PromptType],
        params: BeamSearchParams,
        lora_request: Any = None,
        use_tqdm: bool | Callable[..., Any] = False,
        concurrency_limit: int | None = None,
    ) -> list[BeamSearchOutput]:
        """Searches the best continuations of each prompt; the outputs are in the order of the prompts.

        Prompts are as in ``generate``. ``concurrency_limit`` is accepted without effect: prompts that do
        not fit wait. All beams of a prompt are computed together, so ``max_num_seqs`` must be at least
        ``beam_width``.
        """
        if lora_request is not None:
            raise UnimplementedError("beam_search: Quire does not have lora_request", "leave it out")
        outputs = self.generate(prompts, params.sampling_params(), use_tqdm)
        decode = self.get_tokenizer().decode
        return [beam_search_output(output, params, decode) for output in outputs]

    # Vectors.

    def embed(
        self,
        prompts: PromptType | Sequence[PromptType],
        use_tqdm: bool | Callable[..., Any] = True,
        *,
        pooling_params: PoolingParams | None = None,
    ) -> list[EmbeddingRequestOutput]:
        """An embedding of each prompt: its final hidden states, pooled as the model states."""
        params = pooling_params or PoolingParams()
        client = self._client

        def finish(place: int, job: Job, record: _quire.RequestRecord) -> EmbeddingRequestOutput:
            assert job.prompt is not None
            return client.embedding_output(record, job.request_id, job.prompt, params)

        return self._pool(prompts, params, use_tqdm, finish)

    def encode(
        self,
        prompts: PromptType | Sequence[PromptType],
        pooling_params: PoolingParams | None = None,
        use_tqdm: bool | Callable[..., Any] = True,
    ) -> list[PoolingRequestOutput]:
        """The pooled hidden state of each prompt, without scaling unless ``pooling_params`` ask for it."""
        params = pooling_params or PoolingParams()
        client = self._client

        def finish(place: int, job: Job, record: _quire.RequestRecord) -> PoolingRequestOutput:
            assert job.prompt is not None
            return client.pooling_output(record, job.request_id, job.prompt, params)

        return self._pool(prompts, params, use_tqdm, finish)

    def score(
        self,
        data_1: str | Sequence[str],
        data_2: str | Sequence[str],
        use_tqdm: bool | Callable[..., Any] = True,
    ) -> list[ScoringRequestOutput]:
        """The similarity of texts, as cosines of their embeddings: pairs, or one text and each of several."""
        first = [data_1] if isinstance(data_1, str) else list(data_1)
        second = [data_2] if isinstance(data_2, str) else list(data_2)
        if len(first) == 1:
            first *= len(second)
        if len(first) != len(second):
            raise InvalidArgumentError(
                f"score: {len(first)} texts and {len(second)}", "give as many, or one and several"
            )
        unit = PoolingParams(normalize=True)
        texts = list(dict.fromkeys(first + second))
        embedded = dict(zip(texts, self.embed(texts, use_tqdm, pooling_params=unit)))
        scores = []
        for a, b in zip(first, second):
            one, other = embedded[a], embedded[b]
            cosine = math.fsum(x * y for x, y in zip(one.outputs.embedding, other.outputs.embedding))
            scores.append(
                ScoringRequestOutput(
                    one.request_id, ScoringOutput(cosine), one.prompt_token_ids + other.prompt_token_ids
                )
            )
        return scores

    # What the engine knows of itself.

    @property
    def info(self) -> dict[str, Any]:
        """Sizes and settings of the engine."""
        return dict(self._client.info)

    @property
    def plan(self) -> dict[str, Any]:
        """The memory plan that was made before loading, in bytes."""
        return dict(self._client.info["plan"])

    def get_tokenizer(self) -> Tokenizer:
        """The tokenizer of the engine."""
        return Tokenizer(self._client.engine)

    def get_default_sampling_params(self) -> SamplingParams:
        """The parameters of requests without any, including those of the model's generation_config.json."""
        return self._client.default_params()

    def why(self, request_id: str) -> list[dict[str, Any]]:
        """Where a request's time went, span by span, for each of its outputs; "text" is for people.
        ``NotFoundError`` if it is too old: the last 4096 finished requests are kept."""
        story: list[dict[str, Any]] = json.loads(self._client.engine.why(request_id))
        return story

    def engine_state(self, most: int = 256) -> dict[str, Any]:
        """The engine between two steps: its numbers, and at most ``most`` of the running and of the
        waiting requests."""
        state: dict[str, Any] = json.loads(self._client.engine.state(most))
        return state

    def timeline(self) -> Timeline:
        """Which request was in which step: the last 4096 steps, or fewer of large batches. In a notebook
        it is shown as a picture."""
        engine = self._client.engine
        return Timeline(json.loads(engine.timeline(False)), engine.timeline(True))

    def get_metrics(self) -> list[Metric]:
        """The engine's metrics after its last step, under vLLM's names where vLLM has them."""
        stats = json.loads(self._client.engine.stats())
        return engine_metrics(stats, str(self._client.info["model"]), self._client.price_per_hour)

    def reset_prefix_cache(self) -> bool:
        """Empties the prefix cache, except for blocks that running requests use. True if there are none, so
        that the cache is as at the start."""
        self._client.engine.reset_prefix_cache()
        return bool(self.engine_state(0)["stats"]["blocks_used"] == 0)

    def update_weights(self, weights: Weights) -> None:
        """Replaces tensors, as training does: pairs of a name and an array, or a dict (a ``state_dict``).

        Names and shapes are the checkpoint's; numbers are float32, float16 or bfloat16 (arrays of numpy,
        torch or anything that supports DLPack) and are rounded to the checkpoint's type. Afterwards the
        results are those of an engine loaded with these tensors, and the prefix cache is empty. All tensors
        are read before the first is replaced; replaced matrices are in memory twice during the call.

        After an error the model is unchanged: ``InvalidArgumentError`` for a name that the
        checkpoint does not have, a wrong shape, or only some of the tensors that form one matrix
        (query, key and value projections); ``UnavailableError`` while requests run or wait;
        ``UnimplementedError`` for a quantized checkpoint (a model with ``quantization="int8"`` is
        quantized again); ``BadModelError`` for numbers that are not finite.
        """
        self._client.update_weights(weights)

    def sleep(self, level: int = 1) -> None:
        """Releases memory and threads until ``wake_up()``. Until then calls are refused
        (``UnavailableError``), and the prefix cache is lost.

        The weights are not kept in memory but loaded again. So the tensors of ``update_weights`` are lost,
        and prefixes that were pinned through a server: ``level=2`` permits that. ``UnavailableError`` while requests run or wait, or a server is there.
        """
        self._client.sleep(level)

    def wake_up(self, tags: Sequence[str] | None = None) -> None:
        """Loads the checkpoint, as it is now, after ``sleep()``. Without effect if awake."""
        self._client.wake_up(tags)

    @property
    def is_sleeping(self) -> bool:
        """Whether ``sleep()`` was called since the last ``wake_up()``."""
        return self._client.is_sleeping

    # Its end.

    def close(self) -> None:
        """Closes its server if it has one, ends running requests, and releases memory and threads. A second
        call has no effect."""
        self._client.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._client.closed else ""
        return f"LLM({self._client.info['model']!r}{closed})"

    def __reduce__(self) -> Any:
        raise TypeError("an LLM cannot be pickled: load the model in the process that uses it")

    # Within.

    @staticmethod
    def _several(prompts: PromptType | Sequence[PromptType]) -> Sequence[PromptType]:
        if is_one_prompt(prompts):
            return [prompts]  # type: ignore[list-item]
        return prompts  # type: ignore[return-value]

    def _generate(
        self,
        prepare: Sequence[Callable[[], Prompt]],
        sampling_params: Params,
        use_tqdm: bool | Callable[..., Any],
        priority: Sequence[int] | None,
    ) -> list[RequestOutput]:
        if sampling_params is None:
            params = [self._client.default_params()] * len(prepare)
        elif isinstance(sampling_params, SamplingParams):
            params = [sampling_params] * len(prepare)
        else:
            params = list(sampling_params)
        for what, given in (("sampling_params", params), ("priority", priority)):
            if given is not None and len(given) != len(prepare):
                raise InvalidArgumentError(
                    f"{what}: {len(given)} for {len(prepare)} prompts", "give one for each, or one for all"
                )
        jobs = [
            Job(
                call,
                each._native(),
                each.n,
                self._client.new_request_id(),
                None if priority is None else priority[i],
                processors=ProcessorChain.of(each.logits_processors),
            )
            for i, (call, each) in enumerate(zip(prepare, params))
        ]
        client = self._client

        def finish(place: int, job: Job, record: _quire.RequestRecord) -> RequestOutput:
            assert job.prompt is not None
            return client.request_output(record, job.request_id, job.prompt)

        with _progress(use_tqdm, len(jobs)) as progress:
            return run_batch(client, jobs, finish, progress)

    def _pool(
        self,
        prompts: PromptType | Sequence[PromptType],
        params: PoolingParams,
        use_tqdm: bool | Callable[..., Any],
        finish: Callable[[int, Job, _quire.RequestRecord], Any],
    ) -> list[Any]:
        if self._client.info["embedding_error"] is not None:
            raise ConfigError(self._client.info["embedding_error"])
        self._client.check_dimensions(params)
        native = SamplingParams()._native()
        jobs = [
            Job(
                partial(self._client.read_prompt, each, f"prompts[{i}]"),
                native,
                1,
                self._client.new_request_id(),
                embed=True,
            )
            for i, each in enumerate(self._several(prompts))
        ]
        with _progress(use_tqdm, len(jobs)) as progress:
            return run_batch(self._client, jobs, finish, progress)


@contextmanager
def _progress(
    use_tqdm: bool | Callable[..., Any], total: int
) -> Iterator[Callable[[_quire.RequestRecord], None] | None]:
    """A bar of requests, where one is wanted and tqdm is there."""
    make: Callable[..., Any] | None = None
    if callable(use_tqdm):
        make = use_tqdm
    elif use_tqdm:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            make = None
        else:
            make = tqdm
    if make is None:
        yield None
        return
    bar = make(total=total, desc="Processed prompts", dynamic_ncols=True)

    def ended(record: _quire.RequestRecord) -> None:
        bar.update(1)

    try:
        yield ended
    finally:
        bar.close()
