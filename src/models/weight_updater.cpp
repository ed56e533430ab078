#include "models/weight_updater.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "base/printable.h"
#include "quant/encoding.h"
#include "tensor/float_convert.h"

namespace quire {
namespace {

// Bytes of a number; 0: the encoding has blocks, or is no floating point.
std::size_t float_bytes(Encoding encoding) {
  if (encoding == Encoding::kF32) return 4;
  return encoding == Encoding::kF16 || encoding == Encoding::kBF16 ? 2 : 0;
}

std::size_t count_of(const TensorInfo& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  return count;
}

std::vector<std::uint8_t> converted(const TensorInfo& from, Encoding to) {
  const std::size_t count = count_of(from);
  std::vector<float> values(count);
  decode_row(from.encoding, from.data.data(), static_cast<std::int64_t>(count), values.data());
  std::vector<std::uint8_t> bytes(count * float_bytes(to));
  if (to == Encoding::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t half =
        to == Encoding::kF16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
    std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
  }
  return bytes;
}

Status check_like(const TensorInfo& given, const TensorInfo& own) {
  if (float_bytes(own.encoding) == 0 || own.parts_bytes > 0) {
    return Status::unimplemented(
        fmt::format("update_weights: {}: the checkpoint has it as {}", printable(own.name),
                    own.format_name()),
        "load a checkpoint of F32, F16 or BF16; quantize it as it is loaded, if at all");
  }
  if (float_bytes(given.encoding) == 0) {
    return Status::invalid_argument(fmt::format("update_weights: {}: {} is no type of its numbers",
                                                printable(own.name), given.format_name()),
                                    "give float32, float16 or bfloat16");
  }
  if (given.shape != own.shape) {
    return Status::invalid_argument(
        fmt::format("update_weights: {}: shape [{}]; the model's is [{}]", printable(own.name),
                    fmt::join(given.shape, ", "), fmt::join(own.shape, ", ")));
  }
  if (given.data.size() == count_of(own) * float_bytes(given.encoding)) return {};
  return Status::invalid_argument(fmt::format("update_weights: {}: {} bytes do not fit its shape",
                                              printable(own.name), given.data.size()));
}

// A checkpoint with some tensors' data elsewhere.
class ReplacedSource final : public WeightSource {
 public:
  explicit ReplacedSource(const WeightSource& source)
      : source_(source), tensors_(source.tensors().begin(), source.tensors().end()) {
    for (TensorInfo& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }

  void replace(std::string_view name, std::span<const std::uint8_t> data) {
    TensorInfo& tensor = *by_name_.at(name);
    tensor.data = data;
    tensor.file = "update_weights";
    replaced_.push_back(data);
  }

  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  Result<TensorRows> rows(const TensorInfo& tensor, ThreadPool& pool) const override {
    if (is_replaced(tensor.data)) return WeightSource::rows(tensor, pool);
    const TensorInfo* const own = source_.find(tensor.name);
    return source_.rows(*own, pool);
  }
  // What is not the checkpoint's is somebody's memory, whose pages have to stay.
  void release(std::span<const std::uint8_t> data) const override {
    if (!is_replaced(data)) source_.release(data);
  }
  std::vector<const MappedFile*> files() const override { return source_.files(); }

 private:
  bool is_replaced(std::span<const std::uint8_t> data) const {
    return std::ranges::any_of(replaced_, [&](std::span<const std::uint8_t> each) {
      return std::less_equal<>()(each.data(), data.data()) &&
             std::less<>()(data.data(), each.data() + each.size());
    });
  }

  const WeightSource& source_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, TensorInfo*> by_name_;
  std::vector<std::span<const std::uint8_t>> replaced_;
};

}  // namespace

WeightUpdater::WeightUpdater(std::unique_ptr<WeightSource> checkpoint, std::int64_t max_positions,
                             LoadQuantization quantization, const ModelDevices& devices)
    : checkpoint_(std::move(checkpoint)),
      max_positions_(max_positions),
      quantization_(quantization),
      devices_(devices) {}

Result<WeightUpdater::Replacements> WeightUpdater::read(
    const Model& current, const std::vector<TensorInfo>& tensors) const {
  const DecoderSpec& spec = current.spec();
  Replacements given;
  for (const TensorInfo& tensor : tensors) {
    const TensorInfo* const own = checkpoint_->find(tensor.name);
    if (own == nullptr) {
      // Trainers list the output matrix also where the embedding serves.
      if (spec.tie_word_embeddings && tensor.name == spec.names.name(TensorRole::kOutput)) continue;
      std::vector<std::string> names;
      for (const TensorInfo& each : checkpoint_->tensors()) names.push_back(each.name);
      const auto near = nearest(tensor.name, names);
      return Status::invalid_argument(
          fmt::format("update_weights: the model has no tensor {}", printable(tensor.name)),
          near ? fmt::format("did you mean {}?", *near) : "names are the checkpoint's");
    }
    QUIRE_RETURN_IF_ERROR(check_like(tensor, *own));
    Replacement replacement = {.tensor = own, .data = tensor.data};
    if (tensor.encoding != own->encoding) {
      replacement.owned = converted(tensor, own->encoding);
      replacement.data = replacement.owned;
    }
    if (!given.emplace(own->name, std::move(replacement)).second) {
      return Status::invalid_argument(
          fmt::format("update_weights: {} comes twice", printable(tensor.name)));
    }
  }
  return given;
}

Result<std::unique_ptr<Model>> WeightUpdater::update(const Model& current,
                                                     const std::vector<TensorInfo>& tensors) {
  QUIRE_ASSIGN_OR_RETURN(Replacements given, read(current, tensors));
  ReplacedSource source(*checkpoint_);
  std::unordered_set<std::string> names;
  for (const auto& [name, replacement] : given) {
    source.replace(name, replacement.data);
    names.emplace(name);
  }
  for (const auto& [name, replacement] : vectors_) {
    if (!given.contains(name)) source.replace(name, replacement.data);
  }
  QUIRE_ASSIGN_OR_RETURN(
      auto model, current.with_tensors(source, names, max_positions_, devices_, quantization_));
  for (auto& [name, replacement] : given) {
    if (model->matrices().holds(std::string(name))) continue;
    if (replacement.owned.empty()) {
      replacement.owned.assign(replacement.data.begin(), replacement.data.end());
      replacement.data = replacement.owned;
    }
    vectors_.insert_or_assign(name, std::move(replacement));
  }
  return model;
}

}  // namespace quire
