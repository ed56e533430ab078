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
#include "tensor/buffer.h"

namespace quire {

class ThreadPool;

struct TensorInfo {
  std::string name;
  Encoding encoding = Encoding::kF32;
  std::vector<std::int64_t> shape;     // row-major, outermost first (GGUF's order reversed)
  std::span<const std::uint8_t> data;  // exactly the tensor's bytes, inside the mapping
  std::string file;                    // file name, for messages
  std::uint64_t file_offset = 0;       // of `data` in that file, bytes
  // Of a matrix whose numbers lie in several tensors (quantized_source.h): the bytes of all of
  // them, and how they are written, in words. `data` is empty then, and rows() has the numbers.
  std::uint64_t parts_bytes = 0;
  std::string format = {};
  // Which input each place of its rows is of (EncodedMatrix); empty: as they are.
  std::span<const std::int32_t> input_order = {};

  std::uint64_t bytes() const { return data.size() + parts_bytes; }  // in files
  std::string_view format_name() const {
    return format.empty() ? encoding_traits(encoding).name : std::string_view(format);
  }
};

// A matrix row by row, as its encoding has them.
struct TensorRows {
  const std::uint8_t* data = nullptr;
  Buffer memory;  // their owner, where they do not lie in a file like that
};

// Owns the mappings; TensorInfo stay valid as long as the source does. Every offset, size and shape
// was checked when the source was opened.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::span<const TensorInfo> tensors() const = 0;          // in file order
  virtual const TensorInfo* find(std::string_view name) const = 0;  // nullptr if absent

  // The rows of a matrix of tensors(): where they lie, or made by `pool`'s threads.
  virtual Result<TensorRows> rows(const TensorInfo& tensor, ThreadPool& pool) const;

  // `data`, a part of a tensor's bytes, will not be read soon: the process gives up its pages of
  // the mapping. Reading them again works, and costs what it costs. Any thread.
  virtual void release(std::span<const std::uint8_t> data) const = 0;

  // The files on disk with the tensors; empty for a checkpoint in memory.
  virtual std::vector<const MappedFile*> files() const = 0;
};

}  // namespace quire
