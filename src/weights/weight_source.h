// A checkpoint's tensors by name, wherever they lie: one interface over safetensors and GGUF. Data
// stays in the file mapping; nothing is copied.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "quant/encoding.h"

namespace quire {

struct TensorInfo {
  std::string name;
  Encoding encoding = Encoding::kF32;
  std::vector<std::int64_t> shape;     // row-major, outermost first (GGUF's order reversed)
  std::span<const std::uint8_t> data;  // exactly the tensor's bytes, inside the mapping
  std::string file;                    // file name, for messages
  std::uint64_t file_offset = 0;       // of `data` in that file, bytes
};

// Owns the mappings; TensorInfo stay valid as long as the source does. Every offset, size and shape
// was checked when the source was opened.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::span<const TensorInfo> tensors() const = 0;          // in file order
  virtual const TensorInfo* find(std::string_view name) const = 0;  // nullptr if absent

  // `data`, a part of a tensor's bytes, will not be read soon: the process gives up its pages of
  // the mapping. Reading them again works, and costs what it costs. Any thread.
  virtual void release(std::span<const std::uint8_t> data) const = 0;

  // The files on disk that hold the tensors; empty for a checkpoint in memory.
  virtual std::vector<const MappedFile*> files() const = 0;
};

}  // namespace quire
