"""The models that engines are compared on, and what the machine's limits allow with them.

One made-up model of the 1.1B shape in three precisions, for each engine in the nearest form that it reads (the same
file where it can), and in the encodings in which people publish models, beside the peer that reads the same file; and the
bundled SmolLM2-135M.
"""

import dataclasses
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SMOLLM2 = REPOSITORY / "models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
SHAPE = "tinyllama-1.1b"


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    files: dict         # engine: file or folder, below the models' folder unless absolute
    prompt_weights: float   # multiplied with each token of a prompt
    logits_weights: float   # multiplied, besides, with each token that is sampled
    decode_bytes: float     # read for one step of decoding
    flags: dict = dataclasses.field(default_factory=dict)  # engine: what it is given besides, of Quire's alone
    quantized: bool = True


def of_shape(title, files, bits, logits_bits, flags=None):
    """22 layers of hidden size 2,048, 32 heads over 4 of 64, FFN 5,632; vocabulary of 32,000."""
    layer = 2048 * (2 * 2048 + 2 * 256 + 3 * 5632)
    prompt, logits = 22 * layer, 2048 * 32000
    return Model(title, files, prompt, logits, (prompt * bits + logits * logits_bits) / 8, flags or {}, bits < 16)


def shape_model(title, gguf, folder, bits, logits_bits, openvino, quire_flags=()):
    files = {"quire": folder or gguf, "openvino": f"{SHAPE}-openvino-{openvino}"}
    if gguf:
        files |= {"llama.cpp": gguf, "llama.cpp-library": gguf}
    if folder and not quire_flags:
        files |= {"transformers": folder, "vllm": folder}
    return of_shape(title, files, bits, logits_bits, {"quire": quire_flags})


def encoded_model(name, title, bits, peers, own):
    """A folder whose layers are in an encoding and whose logits are BF16: beside the peers that read it, beside BF16, and
    beside Quire's own layout of as many bits, whose logits are INT8: 65 MB fewer for a step of decoding to read."""
    folder, bf16 = f"{SHAPE}-{name}", f"{SHAPE}-bf16"
    files = {"quire": folder, "own-bf16": bf16, "own-layout": bf16} | dict.fromkeys(peers, folder)
    return of_shape(title, files, bits, 16, {"own-layout": ("--quantization", own)})


MODELS = {
    "bf16": shape_model("1.1B, BF16", f"{SHAPE}-bf16.gguf", f"{SHAPE}-bf16", 16, 16, "fp16"),
    "q8": shape_model("1.1B, 8-bit", f"{SHAPE}-q8_0.gguf", None, 8.5, 8.5, "int8"),
    "q4": shape_model("1.1B, 4-bit", f"{SHAPE}-q4_0.gguf", None, 4.5, 6.5625, "int4"),
    # Both quantize the same BF16 folder themselves.
    "int8": shape_model("1.1B, INT8, one scale a row", None, f"{SHAPE}-bf16", 8, 8, "int8",
                        ("--quantization", "int8")),
    "int4": shape_model("1.1B, INT4 groups of 128", None, f"{SHAPE}-bf16", 4.125, 8, "int4",
                        ("--quantization", "int4")),
    # Q6_K in half of the value and down projections, and the logits.
    "q4_k_m": of_shape("1.1B, Q4_K_M", dict.fromkeys(("quire", "llama.cpp", "llama.cpp-library"), f"{SHAPE}-q4_k_m.gguf") |
                       {"own-bf16": f"{SHAPE}-bf16", "own-layout": f"{SHAPE}-q4_0.gguf"}, 4.85, 6.5625),
    "smollm": Model("SmolLM2-135M Q4_1", dict.fromkeys(("quire", "llama.cpp", "llama.cpp-library"), SMOLLM2),
                    30 * 576 * (2 * 576 + 2 * 192 + 3 * 1536), 576 * 49152, 96.6e6),
}
for encoding in (("gptq", "1.1B, GPTQ 4 bits, g128", 4.195, ("vllm",), "int4"),
                 ("awq", "1.1B, AWQ 4 bits, g128", 4.195, ("vllm",), "int4"),
                 ("nf4", "1.1B, NF4, b64", 4.5, ("transformers",), "int4"),
                 ("nf4_double", "1.1B, NF4, b64, double quantization", 4.156, ("transformers",), "int4"),
                 ("fp8", "1.1B, FP8, a scale an output", 8.008, ("vllm", "transformers"), "int8"),
                 ("fp8_blocks", "1.1B, FP8, blocks of 128 by 128", 8.062, ("vllm", "transformers"), "int8")):
    MODELS[encoding[0]] = encoded_model(*encoding)


def path_of(model, engine, folder):
    """Where the engine's form of the model lies; None where the engine has none."""
    name = MODELS[model].files.get(engine)
    return None if name is None else pathlib.Path(folder) / name


def make_missing(model, engine, folder, quire, venvs):
    """Makes the engine's form of the model where it is not there yet."""
    path = path_of(model, engine, folder)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if model == "smollm":
        raise FileNotFoundError(f"{path} is not there; fetch it with: make model")
    name = path.name.removeprefix(f"{SHAPE}-")
    if engine == "openvino":
        source = path_of("bf16", "transformers", folder)
        make_missing("bf16", "transformers", folder, quire, venvs)
        command = [pathlib.Path(venvs) / "peers-openvino/bin/optimum-cli", "export", "openvino", "--model", source,
                   "--task", "text-generation-with-past", "--weight-format", path.name.rsplit("-", 1)[1], path]
    elif path.suffix != ".gguf" and name != "bf16":
        make_missing("bf16", "quire", folder, quire, venvs)
        python = pathlib.Path(venvs) / "peers-transformers/bin/python"
        if not python.exists():
            raise FileNotFoundError(f"{python}, which makes {path}, is not there; install it with: "
                                    "scripts/install_peers.sh transformers")
        command = [python, "-B", REPOSITORY / "scripts/make_encoded_model.py", path_of("bf16", "quire", folder), name, path]
    else:
        command = [quire, "bench", "make-model", "--shape", SHAPE, "--output", path]
        if path.suffix == ".gguf":
            command += ["--format", "gguf", "--encoding", pathlib.Path(name).stem]
    print(f"making {path}", file=sys.stderr)
    subprocess.run([str(each) for each in command], check=True, stdout=sys.stderr)


def limit(row, model, machine):
    """What the machine allows at most, of a row that has a limit: tokens/s by the lower of read bandwidth and the rate of
    the fastest instruction of F32, or of BF16 or bytes as the weights are. A level without a dot product of bytes has
    faster integer instructions than F32 FMA, so there quantized weights can go beyond this."""
    spec = MODELS[model]
    rate = machine["int8_per_s" if spec.quantized else "bf16_per_s"]
    sampled = 2 * (spec.prompt_weights + spec.logits_weights)
    step = lambda count: max(spec.decode_bytes / machine["read_bytes_per_s"],
                             count * sampled / rate)
    prefill = rate / (2 * spec.prompt_weights)
    if row.kind == "decode":
        return row.size / step(row.size)
    if row.kind == "prefill":
        return prefill
    assert row.kind == "serve", row.kind
    return 1 / (row.input_len / (row.output_len * prefill) + step(row.size) / row.size)
