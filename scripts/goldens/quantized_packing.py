"""How each format of quantized safetensors holds a matrix: by its published definition, with rounding to
the nearest code, which is all that a test of reading needs; NF4 and FP4 by bitsandbytes
itself, NVFP4 and MXFP4 by compressed-tensors, HQQ by hqq, torchao's by torchao.

pack() gives the tensors of a matrix by the last part of their names, and the matrix that they stand for.
"""

import bitsandbytes.functional as bnb
import torch
from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationScheme
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer
from torchao.core.config import config_from_dict
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import quantize_

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # which output is in each nibble of a word (AutoAWQ)


def round_to_codes(weight, bits, group, symmetric, scale_dtype):
    """Codes [out, in], scales and zero points [out, groups], and the matrix that they stand for."""
    rows, cols = weight.shape
    group = cols if group in (-1, None) else min(group, cols)
    parts = weight.reshape(rows, cols // group, group)
    most = 2 ** bits - 1
    if symmetric:
        scale = parts.abs().amax(-1).mul(2) / most
        zero = torch.full_like(scale, 2 ** (bits - 1))
    else:
        low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
        scale = (high - low) / most
        zero = (-low / scale).round().clamp(0, most)
    scale = scale.clamp(min=1e-4).to(scale_dtype).float()
    codes = (parts / scale[..., None] + zero[..., None]).round().clamp(0, most)
    decoded = scale[..., None] * (codes - zero[..., None])
    return codes.reshape(rows, cols).int(), scale, zero.int(), decoded.reshape(rows, cols)


def pack_words(codes, bits, dim):
    """Words of 32 bits along `dim`: the first code in the lowest bits, going on into the next word."""
    codes = codes.movedim(dim, -1).long()
    count = codes.shape[-1] * bits // 32
    assert codes.shape[-1] * bits % 32 == 0
    if 32 % bits == 0:
        words = (codes.unflatten(-1, (count, 32 // bits)) << torch.arange(0, 32, bits)).sum(-1)
    else:
        words = torch.zeros(*codes.shape[:-1], count, dtype=torch.int64)
        for i in range(codes.shape[-1]):
            word, shift = divmod(i * bits, 32)
            words[..., word] |= codes[..., i] << shift & 0xFFFFFFFF
            if shift + bits > 32:
                words[..., word + 1] |= codes[..., i] >> (32 - shift)
    words = torch.where(words >= 2 ** 31, words - 2 ** 32, words).int()
    return words.movedim(-1, dim)


def pack_gptq(quantization, weight, seed):
    bits, group = quantization["bits"], quantization["group_size"]
    rows, cols = weight.shape
    group = cols if group == -1 else min(group, cols)
    index = torch.arange(cols) // group
    if quantization.get("desc_act"):
        # The order of an act-order run: any will do.
        order = torch.randperm(cols, generator=torch.Generator().manual_seed(seed))
        codes, scale, zero, decoded = round_to_codes(weight[:, order], bits, group,
                                                     quantization["sym"], torch.float16)
        back = torch.argsort(order)
        codes, decoded, index = codes[:, back], decoded[:, back], index[back]
    else:
        codes, scale, zero, decoded = round_to_codes(weight, bits, group, quantization["sym"],
                                                     torch.float16)
    own = quantization.get("packing_format") == "auto_round"  # auto-round's, not auto_gptq's
    if quantization.get("checkpoint_format", "gptq") == "gptq" and not own:
        # Zero points are stored less one: there is none of 0 (it would need a bit more).
        least = zero.clamp(min=1)
        decoded = decoded - ((least - zero) * scale)[:, index]
        zero, stored = least, least - 1
    else:
        stored = zero
    parts = {"qweight": pack_words(codes.T, bits, 0), "qzeros": pack_words(stored.T, bits, 1),
             "scales": scale.T.half()}
    return parts if own else {**parts, "g_idx": index.int()}, decoded


def pack_awq(quantization, weight, seed):
    del seed
    group = quantization["group_size"]
    cols = weight.shape[1]
    group = min(group, cols)
    codes, scale, zero, decoded = round_to_codes(weight, 4, group, False, torch.float16)
    if quantization["version"] == "gemm":
        places = lambda x: x.reshape(x.shape[0], -1, 8)[..., AWQ_ORDER].reshape(x.shape)  # noqa: E731
        parts = {"qweight": pack_words(places(codes.T), 4, 1),
                 "qzeros": pack_words(places(zero.T), 4, 1), "scales": scale.T.half()}
        return parts, decoded
    # GEMV: groups are padded, to eight and by a factor for small ones.
    factor = {128: 1, 64: 2, 32: 4}[group if group < 128 else 128]
    words = -(-(-(-(cols // group) // 8)) // factor) * factor
    pad = words * 8 - scale.shape[1]
    parts = {"qweight": pack_words(codes, 4, 1),
             "qzeros": pack_words(torch.nn.functional.pad(zero, (0, pad)), 4, 1),
             "scales": torch.nn.functional.pad(scale, (0, pad)).half()}
    return parts, decoded


def round_to_e4m3(weight, block_rows, block_cols):
    """e4m3 with a float scale for each block of so many rows and columns."""
    rows, cols = weight.shape
    codes = torch.zeros(rows, cols, dtype=torch.float8_e4m3fn)
    decoded = torch.zeros_like(weight)
    scales = torch.zeros(-(-rows // block_rows), -(-cols // block_cols))
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            at = (slice(i * block_rows, (i + 1) * block_rows),
                  slice(j * block_cols, (j + 1) * block_cols))
            scales[i, j] = weight[at].abs().max() / 448
            codes[at] = (weight[at] / scales[i, j]).to(torch.float8_e4m3fn)
            decoded[at] = codes[at].float() * scales[i, j]
    return codes, scales, decoded


def pack_fp8(quantization, weight, seed):
    del seed
    if "weight_block_size" in quantization:
        codes, scales, decoded = round_to_e4m3(weight, 128, 128)
        return {"weight": codes, "weight_scale_inv": scales}, decoded
    codes, scales, decoded = round_to_e4m3(weight, *weight.shape)
    return {"weight": codes, "weight_scale": scales.reshape(()),
            "input_scale": torch.tensor(0.02)}, decoded


def pack_llm_int8(quantization, weight, seed):
    del quantization, seed
    largest = weight.abs().amax(1).half().float()
    codes = (weight * (127 / largest)[:, None]).round().clamp(-127, 127)
    parts = {"weight": codes.to(torch.int8), "SCB": largest,
             "weight_format": torch.zeros((), dtype=torch.uint8)}
    return parts, codes * largest[:, None] * (1 / 127)


def pack_bits_and_bytes(quantization, weight, seed):
    if quantization["load_in_8bit"]:
        return pack_llm_int8(quantization, weight, seed)
    packed, state = bnb.quantize_4bit(
        weight, blocksize=quantization["blocksize"], quant_type=quantization["bnb_4bit_quant_type"],
        compress_statistics=quantization["bnb_4bit_use_double_quant"])
    parts = {f"weight.{name}": value for name, value in state.as_dict(packed=True).items()}
    scales = state.absmax
    if state.nested:
        scales = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
    codes = torch.stack([packed.flatten() >> 4, packed.flatten() & 15], 1).flatten().long()
    decoded = state.code[codes] * scales.repeat_interleave(state.blocksize)[:codes.numel()]
    decoded = decoded.reshape(weight.shape)
    # On a CPU bitsandbytes 0.50 takes wrong scales for blocks of more than a row, up to 512 weights.
    if weight.shape[1] % state.blocksize == 0:
        assert torch.equal(decoded, bnb.dequantize_4bit(packed, state))
    return {"weight": packed, **parts}, decoded


def pack_fp4(quantization, weight):
    scheme = QuantizationScheme(targets=["Linear"],
                                weights=quantization["config_groups"]["group_0"]["weights"])
    groups = weight.reshape(len(weight), -1, scheme.weights.group_size)
    scale = groups.abs().amax(-1) / 6
    parts = {"weight": weight}
    if quantization["format"] == "nvfp4-pack-quantized":
        divisor = 448 * 6 / weight.abs().max().reshape(1)
        scale = (scale * divisor).to(torch.float8_e4m3fn).float()
        parts |= {"weight_scale": scale, "weight_global_scale": divisor}
        compressor, scale = NVFP4PackedCompressor, scale / divisor
    else:
        scale = parts["weight_scale"] = torch.exp2(torch.floor(torch.log2(scale)))
        compressor = MXFP4PackedCompressor
    parts = compressor.compress(parts, scheme)
    codes = unpack_fp4_from_uint8(parts["weight_packed"], *weight.shape, dtype=torch.float32)
    decoded = (codes.reshape(groups.shape) * scale[..., None]).reshape(weight.shape)
    theirs = compressor.decompress(parts, scheme)["weight"]
    torch.testing.assert_close(decoded.to(theirs.dtype), theirs)
    return parts, decoded


def pack_compressed(quantization, weight, seed):
    del seed
    if "fp4" in quantization["format"]:
        return pack_fp4(quantization, weight)
    if quantization["format"] == "float-quantized":
        codes, scales, decoded = round_to_e4m3(weight, 1, weight.shape[1])
        return {"weight": codes, "weight_scale": scales}, decoded
    scheme = quantization["config_groups"]["group_0"]["weights"]
    bits = scheme["num_bits"]
    codes, scale, zero, decoded = round_to_codes(weight, bits, scheme["group_size"],
                                                 scheme["symmetric"], torch.bfloat16)
    if quantization["format"] == "int-quantized":
        return {"weight": (codes - 2 ** (bits - 1)).to(torch.int8),
                "weight_scale": scale.bfloat16()}, decoded
    parts = {"weight_packed": pack_words(codes, bits, 1), "weight_scale": scale.bfloat16(),
             "weight_shape": torch.tensor(weight.shape, dtype=torch.int64)}
    if not scheme["symmetric"]:
        parts["weight_zero_point"] = pack_words(zero, bits, 0)
    return parts, decoded


def pack_hqq(quantization, weight, seed):
    del seed
    settings = quantization["quant_config"]["weight_quant_params"]
    rows, cols = weight.shape
    layer = torch.nn.Linear(cols, rows, bias=False)
    layer.weight.data = weight.clone()
    config = BaseQuantizeConfig(nbits=settings["nbits"], group_size=min(settings["group_size"], cols),
                                axis=settings["axis"])
    made = HQQLinear(layer, config, compute_dtype=getattr(torch, quantization["compute_dtype"]), device="cpu")
    parts, meta = made.state_dict(), made.meta
    codes = Quantizer.unpack[meta["packing"]](made.W_q, dtype=torch.float32)[:meta["scale"].numel()]
    decoded = (codes - meta["zero"].float()) * meta["scale"].float()
    theirs = made.dequantize().float()  # rounded to the type of computing
    torch.testing.assert_close(decoded.reshape(weight.shape), theirs, atol=0.02, rtol=0.02)
    return {name: value.detach() for name, value in parts.items()}, decoded.reshape(weight.shape)


def pack_torchao(quantization, weight, seed):
    del seed
    rows, cols = weight.shape
    model = torch.nn.Sequential(torch.nn.Linear(cols, rows, bias=False)).bfloat16()
    model[0].weight.data = weight.bfloat16()
    quantize_(model, config_from_dict(quantization["quant_type"]["default"]))
    made = model[0].weight
    parts, _ = flatten_tensor_state_dict(dict(model.state_dict()))
    parts = {name.removeprefix("0."): value for name, value in parts.items()}
    scale = made.scale.float()
    codes = made.qdata.float().reshape(rows, scale.shape[1], -1)
    zero = made.zero_point.float()[..., None] if getattr(made, "zero_point", None) is not None else 0
    decoded = ((codes - zero) * scale[..., None]).reshape(weight.shape)
    torch.testing.assert_close(decoded, made.dequantize().float(), atol=0.02, rtol=0.02)
    return parts, decoded


def pack(quantization, weight, seed):
    packers = {"gptq": pack_gptq, "auto-round": pack_gptq, "awq": pack_awq,
               "compressed-tensors": pack_compressed, "fp8": pack_fp8,
               "bitsandbytes": pack_bits_and_bytes, "hqq": pack_hqq, "torchao": pack_torchao}
    return packers[quantization["quant_method"]](quantization, weight, seed)
