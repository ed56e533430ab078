"""Refuses interpreters that cannot have an engine. Imported before the extension is."""

from __future__ import annotations

import importlib


def require_main_interpreter() -> None:
    """ImportError in a subinterpreter: an engine's threads serve one interpreter alone."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        main, current = module.get_main(), module.get_current()
        if main != current:
            raise ImportError(
                "quire cannot be imported in a subinterpreter: its engine's threads serve one "
                "interpreter alone; import it in the main one, or use processes"
            )
        return
