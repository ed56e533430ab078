// A GGUF checkpoint (ggml/docs/gguf.md): keys, tensor list and tensors, read in place; in one file
// or in the parts of a split model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "weights/gguf_metadata.h"
#include "weights/gguf_split.h"
#include "weights/weight_source.h"

namespace quire {

inline constexpr std::uint64_t kGgufMaxTensors = 200'000;
inline constexpr std::uint64_t kGgufMaxNameBytes = 4'096;
inline constexpr std::uint32_t kGgufMaxDims = 4;
inline constexpr std::uint64_t kGgufMinAlignment = 8;
inline constexpr std::uint64_t kGgufMaxAlignment = 1U << 20U;

// Versions 2 and 3, little-endian. Tensors may have any Encoding.
// Limits: those above and in gguf_metadata.h.
class GgufFile final : public WeightSource {
 public:
  // Maps the file, or all parts of the split model whose first part it is, and checks all but the
  // tensors' values. Errors: those of MappedFile::open; kBadModel naming file, key or tensor,
  // offset, expected and found for a file that is something else, is truncated or breaks the
  // format, and for parts that do not belong together; kNotFound for a missing part and
  // kInvalidArgument for another part than the first; kUnimplemented for big-endian files and
  // tensor types that are known but not supported.
  static Result<std::unique_ptr<GgufFile>> open(const std::filesystem::path& path);

  // The same for a whole file in memory, which must outlive the result. `name` stands for it in
  // messages.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes,
                                                 std::string name);

  const std::string& name() const { return name_; }  // the path as opened
  std::uint32_t version() const { return version_; }

  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  void release(std::span<const std::uint8_t> data) const override;
  std::vector<const MappedFile*> files() const override;

  // Of the first part.
  const GgufMetadata& metadata() const { return metadata_; }

  // Shorthands for metadata().
  auto find_int(std::string_view key) const { return metadata_.find_int(key); }
  auto find_double(std::string_view key) const { return metadata_.find_double(key); }
  auto find_bool(std::string_view key) const { return metadata_.find_bool(key); }
  auto find_string(std::string_view key) const { return metadata_.find_string(key); }
  auto find_strings(std::string_view key) const { return metadata_.find_strings(key); }
  auto find_floats(std::string_view key) const { return metadata_.find_floats(key); }
  auto find_ints(std::string_view key) const { return metadata_.find_ints(key); }
  auto get_int(std::string_view key) const { return metadata_.get_int(key); }
  auto get_double(std::string_view key) const { return metadata_.get_double(key); }
  auto get_string(std::string_view key) const { return metadata_.get_string(key); }

 private:
  GgufFile(std::string name, std::uint32_t version, GgufMetadata metadata)
      : name_(std::move(name)), version_(version), metadata_(std::move(metadata)) {}

  static Result<std::unique_ptr<GgufFile>> parse_part(std::span<const std::byte> bytes,
                                                      std::string name);
  Status open_other_parts(const std::filesystem::path& path, const GgufPart& first);
  Status index_tensors();

  std::string name_;
  std::uint32_t version_;
  std::vector<MappedFile> mappings_;  // of each part; none if the caller owns the bytes
  GgufMetadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, std::size_t> index_;  // into tensors_
};

}  // namespace quire
