"""The tiny configurations of families.py, and variants of each that move the logits.

`counted`: False where the weights are committed instead of counted, and `gguf`: False where there is no
model.gguf, but a gguf.json (gguf_forms.py) or nothing.
"""

from families_classic import CLASSICS
from families_dense import DENSE
from families_of_experts import EXPERTS

FAMILIES = {**DENSE, **EXPERTS, **CLASSICS}
