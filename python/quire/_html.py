"""How outputs look in a notebook: tokens shaded by their probability, alternatives on hover."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quire.outputs import CompletionOutput, Logprob, RequestOutput


def _shown(token: str | None) -> str:
    return html.escape(token or "").replace("\n", "↵<br>")


def _percent(logprob: float) -> str:
    return f"{100 * math.exp(min(logprob, 0.0)):.1f}%"


def _token(entries: dict[int, Logprob]) -> str:
    own, *others = entries.values()
    doubt = 1 - math.exp(min(own.logprob, 0.0))
    title = f"{own.decoded_token!r} {_percent(own.logprob)}"
    for each in sorted(others, key=lambda other: -other.logprob):
        title += f"\n{each.decoded_token!r} {_percent(each.logprob)}"
    return (
        f'<span title="{html.escape(title)}" '
        f'style="background:rgba(230,120,40,{0.75 * doubt:.2f})">{_shown(own.decoded_token)}</span>'
    )


def completion_html(output: CompletionOutput) -> str:
    """An output; where log probabilities were asked for, its tokens in shades."""
    if output.logprobs:
        body = "".join(_token(entries) for entries in output.logprobs)
    else:
        body = _shown(output.text)
    end = f"{len(output.token_ids)} tokens, {output.finish_reason or 'goes on'}"
    return (
        f'<div style="white-space:pre-wrap;font-family:monospace">{body}'
        f'<span style="color:gray"> [{html.escape(end)}]</span></div>'
    )


def request_html(request: RequestOutput) -> str:
    """A request: its prompt and its outputs."""
    prompt = request.prompt
    if prompt is None:
        prompt = f"{len(request.prompt_token_ids)} tokens"
    return (
        f'<div><div style="white-space:pre-wrap;font-family:monospace;color:gray">{_shown(prompt)}'
        f"</div>{''.join(completion_html(output) for output in request.outputs)}</div>"
    )
