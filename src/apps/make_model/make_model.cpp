#include "apps/make_model/make_model.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/make_model/block_encoder.h"
#include "apps/make_model/file_headers.h"
#include "apps/output_file.h"
#include "base/checked.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPieceBytes = 8U << 20U;

// Removes a path when it goes out of scope, unless it was kept.
class Unfinished {
 public:
  explicit Unfinished(fs::path path) : path_(std::move(path)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  Status keep_as(const fs::path& name) {
    std::error_code error;
    fs::rename(path_, name, error);
    if (error) {
      return Status::io_error(fmt::format("cannot rename {} to {}: {}", path_.string(),
                                          name.string(), error.message()));
    }
    path_.clear();
    return {};
  }

 private:
  fs::path path_;
};

class TensorWriter {
 public:
  TensorWriter(OutputFile& file, std::uint64_t seed, ThreadPool& pool,
               const MakeModelProgress& progress, std::uint64_t total)
      : file_(file),
        seed_(seed),
        pool_(pool),
        progress_(progress),
        total_(total),
        rows_(static_cast<std::size_t>(pool.num_threads())) {}

  Status write(const MadeTensor& tensor) {
    const std::uint64_t row_bytes = tensor.bytes() / static_cast<std::uint64_t>(tensor.rows);
    const std::int64_t piece =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kPieceBytes / row_bytes));
    for (auto& row : rows_) row.resize(static_cast<std::size_t>(tensor.cols));
    for (std::int64_t begin = 0; begin < tensor.rows; begin += piece) {
      const std::int64_t count = std::min(piece, tensor.rows - begin);
      encoded_.resize(static_cast<std::size_t>(count) * row_bytes);
      pool_.parallel_for(count, 16, [&](std::int64_t first, std::int64_t last, int worker) {
        for (std::int64_t i = first; i < last; ++i) {
          encode(tensor, begin + i, rows_[static_cast<std::size_t>(worker)],
                 encoded_.data() + static_cast<std::uint64_t>(i) * row_bytes);
        }
      });
      QUIRE_RETURN_IF_ERROR(
          file_.write({reinterpret_cast<const char*>(encoded_.data()), encoded_.size()}));
      done_ += encoded_.size();
      if (!progress_(done_, total_)) return {StatusCode::kCancelled, "interrupted"};
    }
    return {};
  }

  // Zeros up to the next multiple of `alignment` of what was written.
  Status pad(std::uint64_t alignment) {
    const std::uint64_t padding = (alignment - done_ % alignment) % alignment;
    done_ += padding;
    return file_.write(std::string(padding, '\0'));
  }

 private:
  void encode(const MadeTensor& tensor, std::int64_t row, std::vector<float>& weights,
              std::uint8_t* out) const {
    if (!tensor.values.empty()) {
      encode_row(tensor.encoding, tensor.values.data(), tensor.cols, out);
      return;
    }
    random_row(seed_, tensor, row, weights.data());
    encode_row(tensor.encoding, weights.data(), tensor.cols, out);
  }

  OutputFile& file_;
  std::uint64_t seed_;
  ThreadPool& pool_;
  const MakeModelProgress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::vector<std::vector<float>> rows_;  // of each worker
  std::vector<std::uint8_t> encoded_;
};

Status write_weights(const fs::path& path, std::string_view header, std::uint64_t alignment,
                     std::span<const MadeTensor> tensors, std::uint64_t total,
                     const MakeModelArgs& args, ThreadPool& pool,
                     const MakeModelProgress& progress) {
  QUIRE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path.string()));
  QUIRE_RETURN_IF_ERROR(file.write(header));
  TensorWriter writer(file, args.seed, pool, progress, total);
  for (const MadeTensor& tensor : tensors) {
    QUIRE_RETURN_IF_ERROR(writer.write(tensor));
    QUIRE_RETURN_IF_ERROR(writer.pad(alignment));
  }
  return file.close();
}

Status refuse_existing(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return {};
  return Status::invalid_argument(fmt::format("{} exists already", path.string()),
                                  "remove it or name another --output");
}

Status require_room(const fs::path& folder, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) {
    return Status::io_error(fmt::format("cannot write to {}: {}", folder.string(), error.message()),
                            "check the path");
  }
  if (space.available >= bytes) return {};
  return Status::resource_exhausted(
      fmt::format("{}: the model takes {:.2f} GB and {:.2f} GB are free", folder.string(),
                  static_cast<double>(bytes) / 1e9, static_cast<double>(space.available) / 1e9),
      "make room, or choose a smaller --encoding or --shape");
}

Status make_folder(const fs::path& path) {
  std::error_code error;
  if (fs::create_directory(path, error)) return {};
  return Status::io_error(fmt::format("cannot make {}: {}", path.string(), error.message()),
                          "check the path");
}

}  // namespace

Status make_model(const MakeModelArgs& args, ThreadPool& pool, const MakeModelProgress& progress) {
  QUIRE_ASSIGN_OR_RETURN(const SyntheticVocab vocab, make_synthetic_vocab(args.shape.vocab_size));
  QUIRE_ASSIGN_OR_RETURN(const auto tensors, list_tensors(args.shape, args.format, args.encoding,
                                                          vocab.num_control_tokens));
  const fs::path output = args.output.has_filename() ? args.output : args.output.parent_path();
  const fs::path part = output.string() + ".part";
  QUIRE_RETURN_IF_ERROR(refuse_existing(output));
  QUIRE_RETURN_IF_ERROR(refuse_existing(part));

  const bool gguf = args.format == ModelFormat::kGguf;
  const std::string header =
      gguf ? gguf_header(args.shape, vocab, args.encoding, tensors) : safetensors_header(tensors);
  const std::uint64_t alignment = gguf ? kMadeGgufAlignment : 1;
  std::uint64_t total = 0;
  for (const MadeTensor& tensor : tensors) {
    total += (tensor.bytes() + alignment - 1) / alignment * alignment;
  }
  std::vector<NamedFile> small;
  if (!gguf) small = hugging_face_files(args.shape, vocab, args.encoding);
  std::uint64_t all = header.size() + total;
  for (const NamedFile& file : small) all += file.content.size();
  const fs::path parent = output.parent_path();
  QUIRE_RETURN_IF_ERROR(require_room(parent.empty() ? "." : parent, all));

  Unfinished unfinished(part);
  if (!gguf) QUIRE_RETURN_IF_ERROR(make_folder(part));
  for (const NamedFile& file : small) {
    QUIRE_ASSIGN_OR_RETURN(OutputFile out, OutputFile::create((part / file.name).string()));
    QUIRE_RETURN_IF_ERROR(out.write(file.content));
    QUIRE_RETURN_IF_ERROR(out.close());
  }
  QUIRE_RETURN_IF_ERROR(write_weights(gguf ? part : part / "model.safetensors", header, alignment,
                                      tensors, total, args, pool, progress));
  return unfinished.keep_as(output);
}

}  // namespace quire
