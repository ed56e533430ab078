"""Quire in this process: a model, and the engine that runs it.

    import quire

    with quire.LLM() as llm:
        for output in llm.generate(["Red is a"], quire.SamplingParams(temperature=0)):
            print(output.outputs[0].text)
"""

from quire._interpreter import require_main_interpreter

require_main_interpreter()

from quire import _quire  # noqa: E402
from quire._client import PromptType, TextPrompt, TokensPrompt  # noqa: E402
from quire.async_llm import (  # noqa: E402
    AsyncEngineArgs,
    AsyncLLM,
    AsyncLLMEngine,
    EngineArgs,
)
from quire.beam_search import (  # noqa: E402
    BeamSearchOutput,
    BeamSearchParams,
    BeamSearchSequence,
)
from quire.errors import (  # noqa: E402
    BadModelError,
    CancelledError,
    ConfigError,
    GenerationInterrupted,
    InternalError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    QuireError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
)
from quire.llm import LLM, Metric, Timeline  # noqa: E402
from quire.models import inspect, pipeline, plan, tokenize  # noqa: E402
from quire.outputs import (  # noqa: E402
    CompletionOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    Logprob,
    LogprobArrays,
    PoolingOutput,
    PoolingRequestOutput,
    RequestMetrics,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)
from quire.sampling_params import PoolingParams, RequestOutputKind, SamplingParams  # noqa: E402
from quire.server import Server, serve  # noqa: E402
from quire.structured_outputs import GuidedDecodingParams, StructuredOutputsParams  # noqa: E402
from quire.tokenizer import Tokenizer  # noqa: E402

__version__: str = _quire.__version__

__all__ = [
    "LLM",
    "AsyncEngineArgs",
    "AsyncLLM",
    "AsyncLLMEngine",
    "BadModelError",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "CancelledError",
    "CompletionOutput",
    "ConfigError",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "EngineArgs",
    "GenerationInterrupted",
    "GuidedDecodingParams",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "Logprob",
    "LogprobArrays",
    "Metric",
    "NotFoundError",
    "PoolingOutput",
    "PoolingParams",
    "PoolingRequestOutput",
    "PromptType",
    "QuireError",
    "RequestMetrics",
    "RequestOutput",
    "RequestOutputKind",
    "ResourceExhaustedError",
    "SamplingParams",
    "ScoringOutput",
    "ScoringRequestOutput",
    "Server",
    "StructuredOutputsParams",
    "TextPrompt",
    "Timeline",
    "Tokenizer",
    "TokensPrompt",
    "UnavailableError",
    "UnimplementedError",
    "inspect",
    "pipeline",
    "plan",
    "serve",
    "tokenize",
]
