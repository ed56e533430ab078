"""What goes on beside the calls: the engine's log records, and the end of the interpreter."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref

from quire import _quire

logger = logging.getLogger("quire")
logger.addHandler(logging.NullHandler())  # nothing is printed unasked

_engines: weakref.WeakSet[_quire.Engine] = weakref.WeakSet()
_servers: weakref.WeakSet[_quire.Server] = weakref.WeakSet()
_logs: _quire.LogQueue | None = None
_log_thread: threading.Thread | None = None
_lock = threading.Lock()
_closed = threading.Event()
_process = os.getpid()


def _forward(queue: _quire.LogQueue, closed: threading.Event) -> None:
    while True:
        for record in queue.take(3600.0):
            logger.log(record.level, "%s", record.message)
        if closed.is_set():
            return


def start_logs() -> None:
    """From now on what the engine has to say goes to ``logging.getLogger("quire")``."""
    global _logs, _log_thread
    with _lock:
        if _logs is not None:
            return
        _logs = _quire.LogQueue()
        _log_thread = threading.Thread(
            target=_forward, args=(_logs, _closed), name="quire-log", daemon=True
        )
        _log_thread.start()


def remember(engine: _quire.Engine) -> None:
    """It is closed when the interpreter ends."""
    _engines.add(engine)


def remember_server(server: _quire.Server) -> None:
    """It is shut down when the interpreter ends, before its engine is closed."""
    _servers.add(server)


def _after_fork() -> None:
    # The thread and whatever lock it held are the parent's; an engine that is loaded here gets new ones.
    global _logs, _log_thread, _lock, _closed, _process
    _logs, _log_thread, _lock, _closed = None, None, threading.Lock(), threading.Event()
    _process = os.getpid()
    _engines.clear()
    _servers.clear()
    _quire.forget_calls()


def _end() -> None:
    # Before the interpreter is torn down: threads that wait for an engine get its last word and
    # come back to an interpreter that still is one.
    servers = list(_servers)
    for server in servers:
        server.shut_down(0)
    for server in servers:
        while not server.wait(1.0):
            pass
    for engine in list(_engines):
        engine.close()
    if _logs is not None and _log_thread is not None:
        _closed.set()
        _logs.close()
        _log_thread.join(timeout=5)
    _quire.end_calls()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_end)
