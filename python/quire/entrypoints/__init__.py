"""Where vLLM has its entry points."""
