// What config.json says of how a checkpoint's weights are quantized, as a plain description: which
// method wrote them, and its parameters. Where one matrix differs from another the tensors
// themselves say so, by being there and by their shapes (quantized_source.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace quire {

enum class QuantizationMethod : std::uint8_t {
  kNone,
  kGptq,               // and AutoRound's exports in its form
  kAwq,                // and AutoRound's
  kCompressedTensors,  // pack-quantized, int-quantized, float-quantized, NVFP4, MXFP4
  kBitsAndBytes,       // LLM.int8(), NF4, FP4
  kMxfp4,              // experts of gpt-oss: blocks of 32 floats of four bits and a scale
  kTorchao,            // signed bytes and e4m3
  kHqq,                // half-quadratic quantization: zero points that are no integers
  kFp8,                // e4m3 with a scale for a tensor, an output or a block of 128 by 128
};

struct QuantizationConfig {
  QuantizationMethod method = QuantizationMethod::kNone;
  std::string name;   // as it calls itself: "gptq"
  std::string where;  // "config.json: quantization_config", for messages

  int bits = 0;                 // GPTQ, AWQ: of a code
  std::int64_t group_size = 0;  // GPTQ, AWQ: inputs that share a scale; -1: all
  bool zeros_minus_one = true;  // GPTQ: how zero points are stored: as v1 does, else as gptq_v2
  bool per_module = false;      // GPTQ: `dynamic` gives modules other bits and groups
  bool by_output = false;       // AWQ: codes lie as for its GEMV kernel, else as for GEMM
};

// The keys `quantization_config` or, of older compressed-tensors, `compression_config`; kNone where
// both are absent. Errors: kBadModel for what is missing, of the wrong kind or out of range;
// kUnimplemented, by name, for methods, formats and options that are not computed, with what is.
Result<QuantizationConfig> read_quantization_config(const JsonReader& config);

}  // namespace quire
