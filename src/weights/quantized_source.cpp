#include "weights/quantized_source.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/printable.h"
#include "tensor/thread_pool.h"
#include "weights/mxfp4_source.h"
#include "weights/quantized_modules.h"

namespace quire {
namespace {

std::vector<std::int64_t> shape_of(const QuantizedMatrix& matrix) {
  return std::visit([](const auto& of) { return std::vector{of.rows, of.cols}; }, matrix);
}

constexpr std::int64_t kRowsAtOnce = 16;  // that a worker makes: a line of the file's words

class QuantizedSource final : public WeightSource {
 public:
  explicit QuantizedSource(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {}

  Status read(const QuantizationConfig& config) {
    std::set<const TensorInfo*> parts;
    std::map<const TensorInfo*, TensorInfo> matrices;  // by their codes
    for (const TensorInfo& tensor : source_->tensors()) {
      QUIRE_ASSIGN_OR_RETURN(auto module, read_quantized_module(*source_, config, tensor));
      if (!module) continue;
      TensorInfo matrix = {
          .name = fmt::format("{}.weight", module_name(tensor)),
          .encoding = std::visit([](const auto& of) { return rows_encoding(of); }, module->matrix),
          .shape = shape_of(module->matrix),
          .data = {},
          .file = tensor.file,
          .file_offset = tensor.file_offset,
          .parts_bytes = 0,
          .format = module->format};
      for (const TensorInfo* part : module->parts) {
        matrix.parts_bytes += part->data.size();
        parts.insert(part);
      }
      const auto added = modules_.emplace(matrix.name, *std::move(module)).first;
      if (const auto* grouped = std::get_if<GroupedTensor>(&added->second.matrix)) {
        matrix.input_order = grouped->order;
      }
      matrices.emplace(&tensor, std::move(matrix));
    }
    for (const TensorInfo& tensor : source_->tensors()) {
      const auto matrix = matrices.find(&tensor);
      if (matrix != matrices.end()) {
        tensors_.push_back(std::move(matrix->second));
      } else if (!parts.contains(&tensor)) {
        if (!holds_weights(tensor.encoding)) {
          return Status::bad_model(
              fmt::format("{}: tensor {} of {} belongs to no matrix that {} quantizes", tensor.file,
                          printable(tensor.name), encoding_traits(tensor.encoding).name,
                          config.name),
              "fetch the model again; all parts of a matrix must be there");
        }
        tensors_.push_back(tensor);
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!index_.emplace(tensors_[i].name, i).second) {
        return Status::bad_model(fmt::format("{}: tensor {} is there both quantized and not",
                                             tensors_[i].file, printable(tensors_[i].name)),
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

  Result<TensorRows> rows(const TensorInfo& tensor, ThreadPool& pool) const override {
    const auto found = modules_.find(tensor.name);
    if (found == modules_.end()) return source_->rows(tensor, pool);
    const std::int64_t num_rows = tensor.shape[0];
    const auto row_bytes = encoded_row_bytes(tensor.encoding, tensor.shape[1]);
    const auto bytes =
        row_bytes ? checked_mul(*row_bytes, static_cast<std::uint64_t>(num_rows)) : row_bytes;
    if (!bytes) return Status::bad_model("a matrix of more than 2^64 bytes");
    TensorRows rows;
    QUIRE_ASSIGN_OR_RETURN(rows.memory, Buffer::allocate(*bytes));
    auto* const out = reinterpret_cast<std::uint8_t*>(rows.memory.data());
    rows.data = out;
    std::mutex mutex;
    Status first_error;
    std::int64_t first_bad = num_rows;
    pool.parallel_for(num_rows, kRowsAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
      std::uint8_t* const to = out + static_cast<std::uint64_t>(begin) * *row_bytes;
      const Status status = std::visit(
          [&](const auto& matrix) { return encode_rows(matrix, begin, end - begin, to); },
          found->second.matrix);
      if (status.ok()) return;
      const std::lock_guard lock(mutex);
      if (begin >= first_bad) return;
      first_bad = begin;
      first_error = status;
    });
    for (const TensorInfo* part : found->second.parts) source_->release(part->data);
    if (!first_error.ok()) return first_error;
    return rows;
  }

  void release(std::span<const std::uint8_t> data) const override { source_->release(data); }
  std::vector<const MappedFile*> files() const override { return source_->files(); }

 private:
  std::unique_ptr<WeightSource> source_;
  std::map<std::string, QuantizedModule, std::less<>> modules_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, std::size_t> index_;
};

}  // namespace

Result<std::unique_ptr<WeightSource>> open_quantized(std::unique_ptr<WeightSource> source,
                                                     const QuantizationConfig& config) {
  if (config.method == QuantizationMethod::kMxfp4) return open_mxfp4(std::move(source));
  auto quantized = std::make_unique<QuantizedSource>(std::move(source));
  QUIRE_RETURN_IF_ERROR(quantized->read(config));
  return std::unique_ptr<WeightSource>(std::move(quantized));
}

}  // namespace quire
