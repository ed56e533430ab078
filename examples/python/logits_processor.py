"""A function of yours in the loop: a story without the letter e, from a model that knows nothing of the rule.

    logits_processor.py [MODEL]
"""

import sys

import numpy as np
import numpy.typing as npt

from quire import LLM, SamplingParams

model = sys.argv[1] if len(sys.argv) > 1 else ""  # the bundled one
with LLM(model) as llm:
    tokenizer = llm.get_tokenizer()
    size = int(llm.info["vocab_size"])
    texts = [tokenizer.decode([token]) for token in range(size)]
    with_e = np.array([token for token, text in enumerate(texts) if "e" in text.lower()])

    def no_e(output_token_ids: list[int], row: npt.NDArray[np.float32]) -> None:
        row[with_e] = -np.inf

    prompt = "A man walks his dog through a dark town, and"
    for processors in (None, [no_e]):
        params = SamplingParams(temperature=0, max_tokens=40, logits_processors=processors)
        (output,) = llm.generate(prompt, params)
        print(f"{'with' if processors else 'without'} the rule: {output.outputs[0].text!r}")
        assert processors is None or "e" not in output.outputs[0].text.lower()
