#include "weights/safetensors.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "weights/file_kind.h"
#include "weights/safetensors_header.h"
#include "weights/tensor_extent.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

Result<Encoding> encoding_of(const JsonReader& entry, SafetensorsTypes types) {
  QUIRE_ASSIGN_OR_RETURN(const std::string dtype, entry.get_string("dtype"));
  if (dtype == "F32") return Encoding::kF32;
  if (dtype == "F16") return Encoding::kF16;
  if (dtype == "BF16") return Encoding::kBF16;
  if (types == SafetensorsTypes::kQuantized) {
    if (dtype == "U8" || dtype == "BOOL") return Encoding::kU8;
    if (dtype == "I8") return Encoding::kI8;
    if (dtype == "I32") return Encoding::kI32;
    if (dtype == "I64") return Encoding::kI64;
    if (dtype == "F8_E4M3") return Encoding::kF8E4M3;
  }
  return Status::unimplemented(
      fmt::format("{}: dtype {} is not supported", entry.where(), printable(dtype)),
      "use a checkpoint whose tensors are F32, F16 or BF16");
}

// An array of at most `max_size` integers >= 0.
Result<std::vector<std::int64_t>> read_sizes(const JsonReader& entry, std::string_view key,
                                             std::size_t max_size) {
  const json::value* value = entry.find(key);
  if (value == nullptr || !value->is_array()) {
    return entry.type_error(key, "an array of integers");
  }
  const json::array& array = value->get_array();
  if (array.size() > max_size) {
    return Status::bad_model(fmt::format("{}: {}: expected at most {} numbers, found {}",
                                         entry.where(), key, max_size, array.size()));
  }
  std::vector<std::int64_t> sizes;
  for (const json::value& element : array) {
    const std::int64_t* size = element.if_int64();
    if (size == nullptr || *size < 0) {
      return Status::bad_model(fmt::format("{}: {}: expected integers from 0 to 2^63 - 1, found {}",
                                           entry.where(), key,
                                           printable(json::serialize(element))));
    }
    sizes.push_back(*size);
  }
  return sizes;
}

// The masks of attention, [1, 1, n, n], that old exporters wrote beside the weights.
bool is_causal_mask(std::string_view dtype, std::span<const std::int64_t> shape) {
  return (dtype == "BOOL" || dtype == "U8") && shape.size() == 4 && shape[0] == 1 &&
         shape[1] == 1 && shape[2] == shape[3];
}

struct ReadTensor {
  TensorInfo info;
  bool is_mask = false;  // bytes of the file, but no weights; its encoding means nothing
};

Result<ReadTensor> read_tensor(std::string_view name, const json::value& value,
                               std::uint64_t data_start, std::span<const std::byte> bytes,
                               const std::string& file, SafetensorsTypes types) {
  const std::string where = fmt::format("{}: tensor {}", file, printable(name));
  if (!value.is_object()) {
    return Status::bad_model(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  const JsonReader entry(value.get_object(), where);
  ReadTensor read;
  TensorInfo& tensor = read.info;
  tensor.name = name;
  tensor.file = file;
  QUIRE_ASSIGN_OR_RETURN(const std::string dtype, entry.get_string("dtype"));
  QUIRE_ASSIGN_OR_RETURN(tensor.shape, read_sizes(entry, "shape", kSafetensorsMaxDims));
  read.is_mask = is_causal_mask(dtype, tensor.shape);
  if (!read.is_mask) {
    QUIRE_ASSIGN_OR_RETURN(tensor.encoding, encoding_of(entry, types));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto offsets, read_sizes(entry, "data_offsets", 2));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return Status::bad_model(
        fmt::format("{}: data_offsets: expected a begin and an end not before "
                    "it, found {}",
                    where, shape_text(offsets)));
  }
  const auto begin = static_cast<std::uint64_t>(offsets[0]);
  const auto end = static_cast<std::uint64_t>(offsets[1]);
  auto expected = encoded_bytes(tensor.encoding, tensor.shape);
  if (read.is_mask && expected) *expected /= sizeof(float);  // a byte for each element
  if (!expected) {
    return Status::bad_model(fmt::format("{}: shape {} of {} does not fit 63 bits of bytes", where,
                                         shape_text(tensor.shape),
                                         encoding_traits(tensor.encoding).name));
  }
  if (end - begin != *expected) {
    return Status::bad_model(fmt::format("{}: expected {} bytes for shape {} of {}, found {}",
                                         where, *expected, shape_text(tensor.shape),
                                         encoding_traits(tensor.encoding).name, end - begin));
  }
  // data_start is within the file and `end` below 2^63: their sum cannot wrap.
  if (end > bytes.size() - data_start) {
    return tensor_truncated(file, name, data_start + end, bytes.size());
  }
  tensor.file_offset = data_start + begin;
  const auto data = bytes.subspan(tensor.file_offset, end - begin);
  tensor.data = {reinterpret_cast<const std::uint8_t*>(data.data()), data.size()};
  return read;
}

// The format wants every byte after the header to belong to a tensor: anything else may be hiding
// in the gaps.
Status check_coverage(std::span<const TensorInfo> tensors, std::uint64_t data_start,
                      std::uint64_t file_bytes, const std::string& file) {
  const auto sorted = by_offset(tensors);
  QUIRE_RETURN_IF_ERROR(check_no_overlap(sorted));
  std::uint64_t at = data_start;
  for (const TensorInfo* tensor : sorted) {
    if (tensor->file_offset != at) {
      return Status::bad_model(
          fmt::format("{}: bytes {} to {} before tensor {} belong to no tensor", file, at,
                      tensor->file_offset, printable(tensor->name)),
          "fetch or convert the model again");
    }
    at += tensor->data.size();
  }
  if (at != file_bytes) {
    return Status::bad_model(fmt::format("{}: bytes {} to {} after the last tensor belong to no "
                                         "tensor",
                                         file, at, file_bytes),
                             "fetch or convert the model again");
  }
  return {};
}

// Several mapped files as one checkpoint.
class SafetensorsCheckpoint final : public WeightSource {
 public:
  explicit SafetensorsCheckpoint(SafetensorsTypes types) : types_(types) {}

  Status add(const fs::path& path) {
    QUIRE_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
    QUIRE_ASSIGN_OR_RETURN(auto tensors, parse_safetensors(mapping.bytes(), path.string(), types_));
    mappings_.push_back(std::move(mapping));
    std::ranges::move(tensors, std::back_inserter(tensors_));
    return {};
  }

  // Once, after the last file.
  Status build_index() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const auto [entry, is_new] = index_.emplace(tensors_[i].name, i);
      if (!is_new) {
        return Status::bad_model(
            fmt::format("{}: tensor {} is also in {}", tensors_[i].file,
                        printable(tensors_[i].name), tensors_[entry->second].file),
            "fetch or convert the model again");
      }
    }
    return {};
  }

  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }
  void release(std::span<const std::uint8_t> data) const override {
    for (const MappedFile& mapping : mappings_) {
      if (mapping.contains(data.data())) mapping.release(std::as_bytes(data));
    }
  }
  std::vector<const MappedFile*> files() const override {
    std::vector<const MappedFile*> files;
    for (const MappedFile& mapping : mappings_) files.push_back(&mapping);
    return files;
  }

 private:
  SafetensorsTypes types_;
  std::vector<MappedFile> mappings_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, std::size_t> index_;
};

// Names of an index are names of files beside it, never paths.
bool is_plain_shard_name(std::string_view name) {
  return name.ends_with(".safetensors") && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Tensor name to the name of its file.
Result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value, read_json_file(path, kSafetensorsMaxIndexBytes));
  if (!value.is_object()) {
    return Status::bad_model(
        fmt::format("{}: expected an object, found {}", path.string(), json_kind_name(value)));
  }
  const JsonReader index(value.get_object(), path.string());
  QUIRE_ASSIGN_OR_RETURN(const JsonReader weight_map, index.get_object("weight_map"));
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : weight_map.object()) {
    if (!file.is_string()) return weight_map.type_error(name, "a file name");
    const std::string_view shard = file.get_string();
    if (!is_plain_shard_name(shard)) {
      return Status::bad_model(
          fmt::format("{}: {}: expected the name of a .safetensors file beside the index, found {}",
                      weight_map.where(), printable(name), printable(shard)));
    }
    files.emplace(name, shard);
  }
  if (files.empty()) {
    return Status::bad_model(fmt::format("{}: it names no tensors", weight_map.where()));
  }
  return files;
}

Status open_shards(const fs::path& index_path, SafetensorsCheckpoint& checkpoint) {
  const fs::path folder = index_path.parent_path();
  QUIRE_ASSIGN_OR_RETURN(const auto files, read_index(index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, file] : files) shards.insert(file);
  for (const std::string& shard : shards) {
    std::error_code error;
    if (!fs::exists(folder / shard, error)) {
      return Status::not_found(fmt::format("no file {}, which {} names", (folder / shard).string(),
                                           index_path.filename().string()),
                               "fetch the missing shard");
    }
    QUIRE_RETURN_IF_ERROR(checkpoint.add(folder / shard));
  }
  QUIRE_RETURN_IF_ERROR(checkpoint.build_index());
  for (const auto& [name, file] : files) {
    const TensorInfo* tensor = checkpoint.find(name);
    const std::string expected = (folder / file).string();
    if (tensor == nullptr || tensor->file != expected) {
      return Status::bad_model(fmt::format("{}: tensor {} is not in {}, where the index says it is",
                                           index_path.string(), printable(name), file),
                               "fetch the model again");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> bytes,
                                                  const std::string& name, SafetensorsTypes types) {
  QUIRE_ASSIGN_OR_RETURN(const auto header, read_safetensors_header(bytes, name));
  std::set<std::string> masks;
  std::vector<TensorInfo> tensors;
  tensors.reserve(header.entries.size());
  for (const auto& [key, value] : header.entries) {
    if (key == "__metadata__") continue;  // free text of the writer
    QUIRE_ASSIGN_OR_RETURN(auto read,
                           read_tensor(key, value, header.data_start, bytes, name, types));
    if (read.is_mask) masks.insert(read.info.name);
    tensors.push_back(std::move(read.info));
  }
  QUIRE_RETURN_IF_ERROR(check_coverage(tensors, header.data_start, bytes.size(), name));
  std::erase_if(tensors, [&](const TensorInfo& tensor) { return masks.contains(tensor.name); });
  std::ranges::stable_sort(tensors, {}, &TensorInfo::file_offset);
  return tensors;
}

Result<std::unique_ptr<WeightSource>> open_safetensors(const fs::path& folder,
                                                       SafetensorsTypes types,
                                                       std::string_view name) {
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>(types);
  const std::string single = fmt::format("{}.safetensors", name);
  const std::string index = fmt::format("{}.index.json", single);
  std::error_code error;
  if (fs::exists(folder / single, error)) {
    QUIRE_RETURN_IF_ERROR(checkpoint->add(folder / single));
    QUIRE_RETURN_IF_ERROR(checkpoint->build_index());
  } else if (fs::exists(folder / index, error)) {
    QUIRE_RETURN_IF_ERROR(open_shards(folder / index, *checkpoint));
  } else {
    for (fs::directory_iterator file(folder, error), end; !error && file != end;
         file.increment(error)) {
      if (is_pickle_name(file->path())) return pickle_refused(file->path());
    }
    return Status::not_found(
        fmt::format("{} has neither {} nor {}", folder.string(), single, index),
        "check the path, or fetch the model again");
  }
  return std::unique_ptr<WeightSource>(std::move(checkpoint));
}

}  // namespace quire
