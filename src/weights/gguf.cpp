#include "weights/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/printable.h"
#include "weights/byte_cursor.h"
#include "weights/file_kind.h"
#include "weights/gguf_header.h"
#include "weights/tensor_extent.h"

namespace quire {
namespace {

constexpr std::string_view kFetchAgain = "the file is truncated or damaged: fetch it again";
constexpr std::uint64_t kDefaultAlignment = 32;

struct Header {
  std::uint32_t version = 0;
  std::uint64_t tensor_count = 0;
  std::uint64_t key_count = 0;
};

// ggml's tensor types by number (enum ggml_type in ggml.h); the empty ones were removed from it.
constexpr std::string_view kTypeNames[] = {
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4", "Q1_0",
};

// Those that other files alone have lie between the others.
bool is_ggml(Encoding encoding) {
  return encoding <= Encoding::kQ6_K || (encoding >= kFirstCompact && encoding <= Encoding::kTQ2_0);
}

// Encodings are called what ggml calls its types.
std::optional<Encoding> supported_encoding(std::string_view type) {
  for (int i = 0; i < kNumEncodings; ++i) {
    const auto encoding = static_cast<Encoding>(i);
    if (is_ggml(encoding) && encoding_traits(encoding).name == type) return encoding;
  }
  return std::nullopt;
}

std::string supported_names() {
  std::string names;
  for (int i = 0; i < kNumEncodings; ++i) {
    if (!is_ggml(static_cast<Encoding>(i))) continue;
    if (i > 0) names += static_cast<Encoding>(i) < Encoding::kTQ2_0 ? ", " : " or ";
    names += encoding_traits(static_cast<Encoding>(i)).name;
  }
  return names;
}

Result<Header> read_header(ByteCursor& cursor, std::span<const std::byte> bytes,
                           const std::string& file) {
  std::uint32_t magic = 0;
  if (!cursor.read(magic)) {
    return Status::bad_model(
        fmt::format("{}: {} bytes are too few for a GGUF file", file, bytes.size()),
        "fetch it again");
  }
  constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
  if (magic != kMagic) return wrong_file_kind(file, "a GGUF file", recognize_file(bytes));
  Header header;
  if (!cursor.read(header.version) || !cursor.read(header.tensor_count) ||
      !cursor.read(header.key_count)) {
    return Status::bad_model(
        fmt::format("{}: truncated: a GGUF header has 24 bytes, the file has {}", file,
                    bytes.size()),
        "fetch it again");
  }
  if (header.version != 0 && (header.version & 0xffffU) == 0) {
    return Status::unimplemented(fmt::format("{}: big-endian GGUF files are not supported", file),
                                 "use the little-endian file of the model");
  }
  if (header.version != 2 && header.version != 3) {
    return Status::unimplemented(
        fmt::format("{}: expected GGUF version 2 or 3, found {}", file, header.version),
        "convert the model again with a current converter");
  }
  return header;
}

Result<std::uint64_t> read_alignment(const GgufMetadata& metadata, const std::string& file) {
  const GgufEntry* entry = metadata.find("general.alignment");
  if (entry == nullptr) return kDefaultAlignment;
  if (entry->is_array || entry->type != GgufType::kU32) {
    return Status::bad_model(fmt::format("{}: general.alignment: expected u32, found {}{}", file,
                                         entry->is_array ? "an array of " : "",
                                         gguf_type_name(entry->type)));
  }
  const std::uint64_t value = load_le<std::uint32_t>(entry->data.data());
  if (value < kGgufMinAlignment || value > kGgufMaxAlignment || !std::has_single_bit(value)) {
    return Status::bad_model(
        fmt::format("{}: general.alignment: expected a power of two from {} to {}, found {}", file,
                    kGgufMinAlignment, kGgufMaxAlignment, value));
  }
  return value;
}

// A tensor as the file describes it, before its place is known.
struct Description {
  TensorInfo tensor;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // from the start of the tensors' data
};

class TensorListParser {
 public:
  TensorListParser(ByteCursor& cursor, const std::string& file) : cursor_(cursor), file_(file) {}

  Result<Description> next(std::uint64_t number) {
    where_ = fmt::format("tensor {}", number);
    Description found;
    found.tensor.file = file_;
    QUIRE_RETURN_IF_ERROR(read_name(found.tensor.name));
    where_ = fmt::format("tensor {}", printable(found.tensor.name));
    QUIRE_RETURN_IF_ERROR(read_shape(found.tensor.shape));
    std::uint32_t type = 0;
    if (!cursor_.read(type) || !cursor_.read(found.offset)) return too_short();
    QUIRE_ASSIGN_OR_RETURN(found.tensor.encoding, encoding_of(type));
    const auto bytes = encoded_bytes(found.tensor.encoding, found.tensor.shape);
    if (!bytes) {
      return bad(
          fmt::format("shape {} of {} is not a whole number of blocks or does not fit 63 "
                      "bits of bytes",
                      shape_text(found.tensor.shape), encoding_traits(found.tensor.encoding).name));
    }
    found.bytes = *bytes;
    return found;
  }

 private:
  Status bad(std::string_view what) const {
    return Status::bad_model(
        fmt::format("{}: {} (before byte {}): {}", file_, where_, cursor_.offset(), what),
        "fetch or convert the model again");
  }

  Status too_short() const {
    return Status::bad_model(fmt::format("{}: {} (byte {}): the list of tensors ends early", file_,
                                         where_, cursor_.offset()),
                             std::string(kFetchAgain));
  }

  Status read_name(std::string& name) {
    std::uint64_t size = 0;
    std::span<const std::byte> bytes;
    if (!cursor_.read(size)) return too_short();
    if (size == 0 || size > kGgufMaxNameBytes) {
      return bad(
          fmt::format("expected a name of 1 to {} bytes, found {}", kGgufMaxNameBytes, size));
    }
    if (!cursor_.read_bytes(size, bytes)) return too_short();
    name.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }

  // The file lists the innermost dimension first.
  Status read_shape(std::vector<std::int64_t>& shape) {
    std::uint32_t dims = 0;
    if (!cursor_.read(dims)) return too_short();
    if (dims > kGgufMaxDims) {
      return bad(fmt::format("expected at most {} dimensions, found {}", kGgufMaxDims, dims));
    }
    shape.resize(dims);
    for (std::uint32_t i = 0; i < dims; ++i) {
      std::uint64_t size = 0;
      if (!cursor_.read(size)) return too_short();
      if (!std::in_range<std::int64_t>(size)) {
        return bad(fmt::format("dimension {} is {}, which does not fit 63 bits", i, size));
      }
      shape[dims - 1 - i] = static_cast<std::int64_t>(size);
    }
    return {};
  }

  Result<Encoding> encoding_of(std::uint32_t type) const {
    if (type < std::size(kTypeNames) && !kTypeNames[type].empty()) {
      const std::string_view name = kTypeNames[type];
      if (const auto encoding = supported_encoding(name)) return *encoding;
      return Status::unimplemented(
          fmt::format("{}: {}: encoding {} is not supported", file_, where_, name),
          "use a file whose tensors are " + supported_names());
    }
    return bad(fmt::format("unknown tensor type {}", static_cast<std::int32_t>(type)));
  }

  ByteCursor& cursor_;
  const std::string& file_;
  std::string where_;
};

// Sets `file_offset`; the tensors' data begins at `data_start`.
Status place(Description& found, std::uint64_t data_start, std::uint64_t alignment,
             std::uint64_t file_bytes) {
  TensorInfo& tensor = found.tensor;
  if (found.offset % alignment != 0) {
    return Status::bad_model(
        fmt::format("{}: tensor {}: offset {} is not a multiple of the alignment {}", tensor.file,
                    printable(tensor.name), found.offset, alignment),
        "fetch or convert the model again");
  }
  const auto begin = checked_add(data_start, found.offset);
  const auto end = begin ? checked_add(*begin, found.bytes) : std::nullopt;
  if (!end) {
    return Status::bad_model(
        fmt::format("{}: tensor {}: offset {} and {} bytes do not fit 64 bits", tensor.file,
                    printable(tensor.name), found.offset, found.bytes),
        "fetch or convert the model again");
  }
  if (*end > file_bytes) return tensor_truncated(tensor.file, tensor.name, *end, file_bytes);
  tensor.file_offset = *begin;
  return {};
}

Result<std::vector<Description>> read_tensors(ByteCursor& cursor, std::uint64_t count,
                                              std::uint64_t alignment, const std::string& file) {
  const std::uint64_t file_bytes = cursor.offset() + cursor.remaining();
  constexpr std::uint64_t kSmallestEntry = 8 + 1 + 4 + 4 + 8;  // name, dims, type, offset
  if (count > kGgufMaxTensors || count > cursor.remaining() / kSmallestEntry) {
    return Status::bad_model(
        fmt::format("{}: the header claims {} tensors; at most {} are read, and the {} bytes after "
                    "the keys hold fewer than {}",
                    file, count, kGgufMaxTensors, cursor.remaining(),
                    cursor.remaining() / kSmallestEntry + 1),
        std::string(kFetchAgain));
  }
  std::vector<Description> found;
  found.reserve(count);
  TensorListParser parser(cursor, file);
  for (std::uint64_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(auto description, parser.next(i));
    found.push_back(std::move(description));
  }
  // The list lies within the file, so rounding up by at most 1 MiB cannot overflow.
  const std::uint64_t data_start = (cursor.offset() + alignment - 1) / alignment * alignment;
  for (Description& description : found) {
    QUIRE_RETURN_IF_ERROR(place(description, data_start, alignment, file_bytes));
  }
  return found;
}

// Everything before the tensors' data.
struct Beginning {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<Description> tensors;
};

// `bytes`: what the cursor reads.
Result<Beginning> read_beginning(ByteCursor& cursor, std::span<const std::byte> bytes,
                                 const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const Header header, read_header(cursor, bytes, name));
  QUIRE_ASSIGN_OR_RETURN(auto metadata, GgufMetadata::parse(cursor, header.key_count, name));
  QUIRE_ASSIGN_OR_RETURN(const std::uint64_t alignment, read_alignment(metadata, name));
  QUIRE_ASSIGN_OR_RETURN(auto tensors, read_tensors(cursor, header.tensor_count, alignment, name));
  return Beginning{
      .version = header.version, .metadata = std::move(metadata), .tensors = std::move(tensors)};
}

}  // namespace

Result<std::optional<GgufHeader>> read_gguf_header(std::span<const std::byte> beginning,
                                                   std::uint64_t file_bytes,
                                                   const std::string& name) {
  ByteCursor cursor(beginning, file_bytes);
  const auto read = read_beginning(cursor, beginning, name);
  if (!read.ok() && cursor.ran_out()) return std::optional<GgufHeader>();
  QUIRE_RETURN_IF_ERROR(read.status());
  GgufHeader header;
  header.bytes = cursor.offset();
  for (const Description& each : read->tensors) {
    if (!each.tensor.name.starts_with("rope_")) continue;
    header.specification.emplace_back(each.tensor.file_offset, each.bytes);
  }
  return std::optional(std::move(header));
}

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  QUIRE_ASSIGN_OR_RETURN(auto file, parse_part(mapping.bytes(), path.string()));
  file->mappings_.push_back(std::move(mapping));
  QUIRE_ASSIGN_OR_RETURN(const GgufPart part, read_gguf_part(file->metadata_, file->name_));
  if (part.count > 1) QUIRE_RETURN_IF_ERROR(file->open_other_parts(path, part));
  QUIRE_RETURN_IF_ERROR(file->index_tensors());
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes,
                                                  std::string name) {
  QUIRE_ASSIGN_OR_RETURN(auto file, parse_part(bytes, std::move(name)));
  QUIRE_ASSIGN_OR_RETURN(const GgufPart part, read_gguf_part(file->metadata_, file->name_));
  if (part.count > 1) {
    return Status::unimplemented(fmt::format("{}: part {} of {} of a split model, in memory",
                                             file->name_, part.number, part.count),
                                 "open the first part's file");
  }
  QUIRE_RETURN_IF_ERROR(file->index_tensors());
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse_part(std::span<const std::byte> bytes,
                                                       std::string name) {
  ByteCursor cursor(bytes);
  QUIRE_ASSIGN_OR_RETURN(Beginning read, read_beginning(cursor, bytes, name));
  std::unique_ptr<GgufFile> file(new GgufFile(name, read.version, std::move(read.metadata)));
  file->tensors_.reserve(read.tensors.size());
  for (Description& description : read.tensors) {
    const auto data = bytes.subspan(description.tensor.file_offset, description.bytes);
    description.tensor.data = {reinterpret_cast<const std::uint8_t*>(data.data()), data.size()};
    file->tensors_.push_back(std::move(description.tensor));
  }
  QUIRE_RETURN_IF_ERROR(check_no_overlap(by_offset(file->tensors_)));
  return file;
}

Status GgufFile::open_other_parts(const std::filesystem::path& path, const GgufPart& first) {
  const auto named = gguf_part_of_name(path);
  if (!named || named->number != first.number || named->count != first.count) {
    return Status::bad_model(
        fmt::format("{}: its keys say that it is part {} of {} of a split model, and its name does "
                    "not: expected NAME-{:05}-of-{:05}.gguf",
                    name_, first.number, first.count, first.number, first.count),
        "give the parts the names that they were fetched under");
  }
  if (first.number != 1) {
    return Status::invalid_argument(
        fmt::format("{}: part {} of {} of a split model", name_, first.number, first.count),
        fmt::format("open the first part: {}", other_gguf_part(path, 1).string()));
  }
  for (int number = 2; number <= first.count; ++number) {
    const std::filesystem::path other = other_gguf_part(path, number);
    auto mapping = MappedFile::open(other);
    if (!mapping.ok() && mapping.status().code() == StatusCode::kNotFound) {
      return Status::not_found(fmt::format("{}: part {} of {} of the model is missing: {}", name_,
                                           number, first.count, other.string()),
                               "fetch all parts into one folder");
    }
    QUIRE_RETURN_IF_ERROR(mapping.status());
    QUIRE_ASSIGN_OR_RETURN(auto file, parse_part(mapping->bytes(), other.string()));
    QUIRE_ASSIGN_OR_RETURN(const GgufPart part, read_gguf_part(file->metadata_, file->name_));
    if (part.number != number || part.count != first.count) {
      return Status::bad_model(
          fmt::format("{}: expected part {} of {}, found part {} of {}", file->name_, number,
                      first.count, part.number, part.count),
          "fetch the parts of one model again");
    }
    mappings_.push_back(std::move(*mapping));
    for (TensorInfo& tensor : file->tensors_) tensors_.push_back(std::move(tensor));
    if (tensors_.size() > kGgufMaxTensors) {
      return Status::bad_model(
          fmt::format("{}: the parts have more than {} tensors", name_, kGgufMaxTensors));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const auto count, metadata_.find_int("split.tensors.count"));
  if (count && std::cmp_not_equal(*count, tensors_.size())) {
    return Status::bad_model(fmt::format("{}: split.tensors.count = {}, but the {} parts have {}",
                                         name_, *count, first.count, tensors_.size()),
                             "fetch the parts of one model again");
  }
  return {};
}

Status GgufFile::index_tensors() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!index_.emplace(tensors_[i].name, i).second) {
      return Status::bad_model(fmt::format("{}: the tensor {} appears twice", tensors_[i].file,
                                           printable(tensors_[i].name)),
                               "fetch or convert the model again");
    }
  }
  return {};
}

void GgufFile::release(std::span<const std::uint8_t> data) const {
  for (const MappedFile& mapping : mappings_) {
    if (mapping.contains(data.data())) return mapping.release(std::as_bytes(data));
  }
}

std::vector<const MappedFile*> GgufFile::files() const {
  std::vector<const MappedFile*> files;
  for (const MappedFile& mapping : mappings_) files.push_back(&mapping);
  return files;
}

const TensorInfo* GgufFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace quire
