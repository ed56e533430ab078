// Checkpoints in the safetensors format (huggingface/safetensors): an eight-byte little-endian
// header length, a JSON header, then the tensors' bytes without a gap. Read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "weights/weight_source.h"

namespace quire {

inline constexpr std::uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;  // the format's own cap
inline constexpr std::uint64_t kSafetensorsMaxEntries = 200'000;          // tensors in one file
inline constexpr std::size_t kSafetensorsMaxDims = 8;
inline constexpr std::uint64_t kSafetensorsMaxIndexBytes = 100'000'000;

// Which tensors a file may have.
enum class SafetensorsTypes : std::uint8_t {
  kFloats,     // F32, F16 and BF16
  kQuantized,  // and BOOL, U8, I8, I32, I64 and F8_E4M3; of BOOL a byte each, as of U8
};

// What the weights of a folder are called: in Hugging Face layout, and in Mistral AI's.
inline constexpr std::string_view kHuggingFaceWeights = "model";
inline constexpr std::string_view kMistralWeights = "consolidated";

// The checkpoint of a model folder: `NAME.safetensors`, else the shards that
// `NAME.safetensors.index.json` names. Tensors are of `types`, in the order of shards and of
// offsets within each; `data` has no particular alignment. All files are mapped and checked, except
// the tensors' values. Errors name file and tensor, expected and found: kNotFound for a folder
// without weights or a missing shard, kBadModel for a file that breaks the format, contradicts the
// index or is a pickle, kUnimplemented for another dtype.
Result<std::unique_ptr<WeightSource>> open_safetensors(
    const std::filesystem::path& folder, SafetensorsTypes types = SafetensorsTypes::kFloats,
    std::string_view name = kHuggingFaceWeights);

// The tensors of one file in memory, in the order of their offsets; they borrow `bytes`. `name`
// stands for the file in messages.
Result<std::vector<TensorInfo>> parse_safetensors(
    std::span<const std::byte> bytes, const std::string& name,
    SafetensorsTypes types = SafetensorsTypes::kFloats);

}  // namespace quire
