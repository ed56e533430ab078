"""``serve``: an OpenAI-compatible server in this process."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any

from quire import _life, _quire
from quire.async_llm import AsyncLLM
from quire.errors import InvalidArgumentError
from quire.llm import LLM

__all__ = ["Server", "serve"]

_LOOK_S = 0.1  # between two looks for Ctrl-C


class Server:
    """A running server, which ``serve()`` has made. ``close()``, or leaving the context, ends it.

    ``url`` is its address (``"http://127.0.0.1:8000"``, ``"unix:/path"``), ``base_url`` that for an
    OpenAI client, ``port`` its port (0 for a UNIX socket), ``llm`` the engine that answers, which may be
    used meanwhile.
    """

    def __init__(self, native: _quire.Server, llm: LLM | AsyncLLM, owns_llm: bool) -> None:
        self._native = native
        self._owns_llm = owns_llm
        self._closed = False
        self.llm = llm
        self.url = native.address
        self.port = native.port

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client."""
        return self.url + "/v1"

    @property
    def closed(self) -> bool:
        """Whether it was closed, by itself or with its engine."""
        return self._closed

    def close(self, timeout: float | None = None) -> None:
        """Ends the server; a second call has no effect.

        No request is taken any more. Those in flight may finish within ``timeout`` seconds, by default
        ``shutdown_timeout`` (30); what runs then is ended, in the engine, too, and its connection is
        closed. Ctrl-C while it waits ends them at once. Requests that are not the server's go on, unless
        ``serve()`` has loaded the model itself: then the engine is closed as well.
        """
        if timeout is not None and not timeout >= 0:
            raise InvalidArgumentError(f"close: timeout: {timeout!r} is not a number of seconds")
        self._native.shut_down(timeout)
        try:
            _wait(self._native)
        finally:
            self._closed = True
            self.llm._client.leave_server(self)
            if self._owns_llm:
                self.llm.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Server({self.url!r}{', closed' if self._closed else ''})"

    def __reduce__(self) -> Any:
        raise TypeError("a Server cannot be pickled: it answers in the process that has started it")


def _wait(native: _quire.Server) -> None:
    """Until it has ended; what interrupts that makes it sooner."""
    try:
        while not native.wait(_LOOK_S):
            pass
    except BaseException:
        native.shut_down(0)
        while not native.wait(_LOOK_S):
            pass
        raise


def _plain(value: object) -> str:
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise TypeError(f"no setting is a {type(value).__name__}: {value!r}")


def _listen(settings: dict[str, Any], with_engine: bool) -> _quire.Server:
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        text = json.dumps(given, default=_plain)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"serve: {error}") from error
    native = _quire.Server(text, with_engine)
    _life.remember_server(native)
    return native


def _answer(native: _quire.Server, llm: LLM | AsyncLLM, owns_llm: bool) -> Server:
    server = Server(native, llm, owns_llm)
    try:
        llm._client.take_server(server)
        native.serve(llm._client.engine)
    except BaseException:
        server.close(0)
        raise
    return server


def serve(
    model: str | os.PathLike[str] | LLM | AsyncLLM = "", *, port: int = 0, **flags: Any
) -> Server:
    """Starts an OpenAI-compatible server on a thread of this process; it answers when this returns.

    ``model``: an ``LLM`` or ``AsyncLLM``, whose engine then answers both its own callers and the server's;
    or a model's name, as ``LLM`` takes it, which is loaded and closed with the server.

        llm = quire.LLM()
        with quire.serve(llm, api_key="...") as server:
            client = openai.OpenAI(base_url=server.base_url, api_key="...")
            llm.generate("Meanwhile,")

    ``port=0`` chooses a free port. The other keywords are flags of ``quire serve --help``, with
    underscores: ``host``, ``uds``, ``api_key`` (one or a list), ``allowed_hosts``, ``allowed_origins``,
    ``root_path``, ``ssl_certfile``, ``ssl_keyfile``, ``prefix_cache_scope``, ``served_model_name``,
    ``strict_fields``, ``tool_call_parser``, ``reasoning_parser``, ``shutdown_timeout``, ``max_ttft``,
    ``rpm_limit``, ``tpm_limit``, ``max_parallel_requests``, ``price_per_hour``, ``log_requests``,
    ``disable_page``, ``otlp_traces_endpoint``, ``batch_database`` (without it there is no Batch API) and
    the limits of connections. With a model's name they may also be settings of ``LLM``.

    Errors, before anything listens: ``InvalidArgumentError`` for a keyword or a value that cannot be,
    ``UnavailableError`` for an address in use, or an engine that is closed, sleeps or has a server
    already. The log, with a line for each request, goes to ``logging.getLogger("quire")``.
    """
    _life.start_logs()
    settings = {"port": port, **flags}
    if isinstance(model, (LLM, AsyncLLM)):
        model._client.check_servable()
        if model._client.price_per_hour is not None:
            settings.setdefault("price_per_hour", model._client.price_per_hour)
        return _answer(_listen(settings, with_engine=False), model, owns_llm=False)
    # It listens before it loads, so that an address in use costs nothing.
    native = _listen({"model": str(model), **settings}, with_engine=True)
    try:
        llm = LLM(**json.loads(native.engine_settings))
    except BaseException:
        native.shut_down(0)
        _wait(native)
        raise
    return _answer(native, llm, owns_llm=True)
