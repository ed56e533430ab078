"""An engine's numbers under the names that vLLM gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Metric", "engine_metrics"]


@dataclass(frozen=True)
class Metric:
    """A number of the engine: ``kind`` is ``"counter"`` (since the start) or ``"gauge"`` (now)."""

    name: str
    kind: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def engine_metrics(
    stats: Mapping[str, Any], model: str, price_per_hour: float | None = None
) -> list[Metric]:
    """Of an engine's statistics after its last step."""
    labels = {"model_name": model, "engine": "0"}
    used = stats["blocks_used"] / max(stats["blocks_total"], 1)
    gauges = {
        "vllm:num_requests_running": stats["num_running"],
        "vllm:num_requests_waiting": stats["num_waiting"],
        "vllm:kv_cache_usage_perc": used,
    }
    counters = {
        "vllm:prompt_tokens": stats["prompt_tokens_computed"] + stats["prompt_tokens_cached"],
        "vllm:generation_tokens": stats["output_tokens_sampled"],
        "vllm:prefix_cache_queries": stats["prefix_cache_queries"],
        "vllm:prefix_cache_hits": stats["prefix_cache_hits"],
        "vllm:num_preemptions": stats["num_preemptions"],
        "quire:steps": stats["num_steps"],
        "quire:requests_finished": stats["num_finished"],
        "quire:requests_aborted": stats["num_aborted"],
    }
    charged = stats["step_time_charged_ns"] / 1e9
    times = {"requests": charged, "idle": max(stats["time_ns"] / 1e9 - charged, 0.0)}
    shares = [Metric("quire:step_time_seconds", "gauge", times[use], {**labels, "use": use}) for use in times]
    if price_per_hour is not None:
        shares += [
            Metric("quire:cost_usd", "gauge", times[use] * price_per_hour / 3600, {**labels, "use": use})
            for use in times
        ]
        shares.append(Metric("quire:price_per_hour_usd", "gauge", price_per_hour, labels))
    return shares + [Metric(name, "gauge", float(value), labels) for name, value in gauges.items()] + [
        Metric(name, "counter", float(value), labels) for name, value in counters.items()
    ]
