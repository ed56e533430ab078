"""What is measured: the rows of the comparison."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    unit: str
    kind: str            # decode, prefill, serve, start, restart
    size: int = 1        # decode, serve: sequences at once; prefill: tokens of the prompt
    input_len: int = 32  # decode, serve: tokens of each prompt
    output_len: int = 64

    @property
    def lower_is_better(self):
        return self.kind in ("start", "restart")

    @property
    def has_limit(self):
        """Whether read bandwidth or arithmetic of the machine bounds it."""
        return not self.lower_is_better


ROWS = {
    "decode1": Row("decode, batch 1", "tokens/s", "decode", 1),
    "decode16": Row("decode, batch 16", "tokens/s", "decode", 16, output_len=16),
    "decode32": Row("decode, batch 32", "tokens/s", "decode", 32, output_len=12),
    "prefill512": Row("prefill, 512 tokens", "tokens/s", "prefill", 512),
    "prefill2048": Row("prefill, 2,048 tokens", "tokens/s", "prefill", 2048),
    "serve16": Row("serving 16 at once over HTTP, 128 in, 128 out", "tokens/s out", "serve", 16, 128, 128),
    "start": Row("start to healthy", "s", "start"),
    "restart": Row("start to healthy, with what a start before has kept on disk", "s", "restart"),
}
