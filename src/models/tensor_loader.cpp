#include "models/tensor_loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "tensor/buffer.h"

namespace quire {
namespace {

// The heads of all queries, keys and values in this order, as places in a list that has the
// queries, the key and the value of each key-value head side by side.
std::vector<std::size_t> places_by_head(const AttentionSpec& attention) {
  const std::int64_t group = attention.num_heads / attention.num_kv_heads;
  std::vector<std::size_t> places;
  for (std::int64_t head = 0; head < attention.num_heads; ++head) {
    places.push_back(static_cast<std::size_t>(head / group * (group + 2) + head % group));
  }
  for (const std::int64_t part : {group, group + 1}) {
    for (std::int64_t head = 0; head < attention.num_kv_heads; ++head) {
      places.push_back(static_cast<std::size_t>(head * (group + 2) + part));
    }
  }
  return places;
}

TensorRoles roles_of(const std::vector<TensorShape>& tensors) {
  TensorRoles roles;
  for (const TensorShape& tensor : tensors) roles.set(static_cast<std::size_t>(tensor.role));
  return roles;
}

}  // namespace

Status check_finite(const TensorInfo& tensor, std::span<const float> values) {
  if (std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) return {};
  return Status::bad_model(fmt::format("{}: tensor {} has values that are not finite", tensor.file,
                                       printable(tensor.name)),
                           "fetch the file again");
}

TensorLoader::TensorLoader(const DecoderSpec& spec, const WeightSource& source,
                           const ModelDevices& devices, const LoadProgress& progress,
                           LoadQuantization quantization, PackedCache* cache,
                           LoadedMatrices& matrices)
    : spec_(spec),
      source_(source),
      devices_(devices),
      device_(devices.main),
      progress_(progress),
      cache_(cache),
      matrices_(matrices) {
  options_.quantization = quantization;
  options_.done = [&source](const std::uint8_t* data, std::uint64_t bytes) {
    source.release({data, bytes});
  };
  for (const TensorInfo& tensor : source.tensors()) total_ += tensor.bytes();
  const TensorRoles outside = roles_of(spec.tensors());
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    roles_.push_back(outside | roles_of(spec.layer_tensors(layer)));
  }
}

const TensorInfo* TensorLoader::find(TensorRole role, std::int64_t layer,
                                     std::int64_t expert) const {
  if (!roles_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(role)]) return nullptr;
  return source_.find(spec_.names.name(role, layer, expert));
}

Result<std::vector<float>> TensorLoader::values(std::initializer_list<TensorRole> roles,
                                                std::int64_t layer) {
  std::vector<float> values;
  for (const TensorRole role : roles) {
    const TensorInfo* tensor = find(role, layer);
    if (tensor != nullptr) QUIRE_RETURN_IF_ERROR(append(*tensor, values));
  }
  add_bytes(values.size() * sizeof(float));
  return values;
}

Result<DeviceFloats> TensorLoader::vector(std::initializer_list<TensorRole> roles,
                                          std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto numbers, values(roles, layer));
  return device_->upload(std::move(numbers));
}

Result<DeviceFloats> TensorLoader::upload(std::vector<float> values) {
  return device_->upload(std::move(values));
}

Result<float> TensorLoader::number(TensorRole role, std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(const auto numbers, values({role}, layer));
  return numbers.front();
}

Result<DeviceFloats> TensorLoader::norm_weight(TensorRole role, std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto weight, values({role}, layer));
  const auto offset = static_cast<float>(spec_.norm.weight_offset);
  if (offset != 0.0F) {
    for (float& value : weight) value += offset;
  }
  return device_->upload(std::move(weight));
}

Result<Norm> TensorLoader::norm(TensorRole role, std::initializer_list<TensorRole> bias,
                                std::int64_t layer) {
  const auto epsilon = static_cast<float>(spec_.norm.epsilon);
  using enum TensorRole;
  if (!spec_.norm.weight && (role == kInputNorm || role == kMlpNorm || role == kFinalNorm)) {
    return Norm(spec_.hidden_size, epsilon);
  }
  QUIRE_ASSIGN_OR_RETURN(auto weight, norm_weight(role, layer));
  QUIRE_ASSIGN_OR_RETURN(auto biases, vector(bias, layer));
  return Norm(spec_.norm.kind, epsilon, std::move(weight), std::move(biases));
}

Result<std::vector<PackedWeight>> TensorLoader::matrices(std::initializer_list<TensorRole> roles,
                                                         std::int64_t layer) {
  QUIRE_RETURN_IF_ERROR(check_shared_inputs(roles, layer));
  std::vector<Rows> parts;
  std::vector<PackedWeight> packed;
  for (const TensorRole role : roles) {
    const TensorInfo* tensor = find(role, layer);
    if (spec_.transposed_matrices) {
      QUIRE_ASSIGN_OR_RETURN(auto weight, transposed_matrix(*tensor));
      packed.push_back(std::move(weight));
      continue;
    }
    parts.push_back(all_rows(*tensor));
  }
  const bool uniform = std::ranges::all_of(parts, [&](const Rows& part) {
    return part.tensor->encoding == parts[0].tensor->encoding &&
           can_be_stacked(part.tensor->encoding, part.count);
  });
  const std::size_t step = uniform ? parts.size() : 1;
  for (std::size_t i = 0; i < parts.size(); i += step) {
    QUIRE_ASSIGN_OR_RETURN(auto weight,
                           packed_matrix(parts[i].tensor->name, std::span(&parts[i], step)));
    packed.push_back(std::move(weight));
  }
  for (const Rows& part : parts) report(*part.tensor);
  return packed;
}

// A copy that has the tensor's columns as rows is packed in its place.
Result<PackedWeight> TensorLoader::transposed_matrix(const TensorInfo& tensor) {
  const auto rows = static_cast<std::size_t>(tensor.shape[1]);
  const auto cols = static_cast<std::size_t>(tensor.shape[0]);
  const std::size_t bytes = tensor.data.size() / (rows * cols);
  if (is_quantized(layout_of(tensor.encoding))) {
    return Status::unimplemented(
        fmt::format("{}: tensor {} is {} and stored with a row for each input, which is not "
                    "supported",
                    tensor.file, printable(tensor.name), encoding_traits(tensor.encoding).name),
        "use a checkpoint of F32, F16 or BF16");
  }
  std::vector<std::uint8_t> copy(tensor.data.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      std::memcpy(copy.data() + (row * cols + col) * bytes,
                  tensor.data.data() + (col * rows + row) * bytes, bytes);
    }
  }
  source_.release(tensor.data);
  const auto done = std::exchange(options_.done, nullptr);  // the copy is not the source's
  const Rows part = {.tensor = &tensor,
                     .count = tensor.shape[1],
                     .made = copy.data(),
                     .made_cols = tensor.shape[0]};
  auto packed = packed_matrix(tensor.name, std::span(&part, 1));
  options_.done = done;
  report(tensor);
  return packed;
}

Status TensorLoader::check_shared_inputs(std::initializer_list<TensorRole> roles,
                                         std::int64_t layer, std::int64_t expert) const {
  const TensorInfo* first = nullptr;
  for (const TensorRole role : roles) {
    const TensorInfo* tensor = find(role, layer, expert);
    if (first == nullptr) first = tensor;
    if (std::ranges::equal(tensor->input_order, first->input_order)) continue;
    return Status::unimplemented(
        fmt::format("{}: tensors {} and {} have the same inputs in different orders", tensor->file,
                    printable(first->name), printable(tensor->name)),
        "use a checkpoint without activation order");
  }
  return {};
}

Result<PackedWeight> TensorLoader::matrix(TensorRole role, std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto packed, matrices({role}, layer));
  return std::move(packed[0]);
}

Result<std::vector<PackedWeight>> TensorLoader::matrix_by_head(TensorRole role,
                                                               const AttentionSpec& attention,
                                                               std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  std::vector<Rows> parts;
  for (const std::size_t place : places_by_head(attention)) {
    parts.push_back({.tensor = &tensor,
                     .first = static_cast<std::int64_t>(place) * attention.head_dim,
                     .count = attention.head_dim});
  }
  std::vector<PackedWeight> packed;
  QUIRE_ASSIGN_OR_RETURN(auto weight, packed_matrix(tensor.name, parts));
  packed.push_back(std::move(weight));
  report(tensor);
  return packed;
}

Result<DeviceFloats> TensorLoader::vector_by_head(TensorRole role, const AttentionSpec& attention,
                                                  std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(const auto by_head, values({role}, layer));
  std::vector<float> by_part;
  if (by_head.empty()) return device_->upload(std::move(by_part));
  by_part.reserve(by_head.size());
  for (const std::size_t place : places_by_head(attention)) {
    const auto from = by_head.begin() + static_cast<std::ptrdiff_t>(place) * attention.head_dim;
    by_part.insert(by_part.end(), from, from + attention.head_dim);
  }
  return device_->upload(std::move(by_part));
}

Result<DeviceFloats> TensorLoader::rows(TensorRole role, std::int64_t first, std::int64_t count,
                                        std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  const std::int64_t cols = tensor.shape.back();
  const auto row_bytes = encoded_row_bytes(tensor.encoding, cols);
  std::vector<float> values(static_cast<std::size_t>(count * cols));
  if (!row_bytes) {
    return Status::bad_model(fmt::format("{}: tensor {}: {} elements are not whole {} blocks",
                                         tensor.file, printable(tensor.name), cols,
                                         encoding_traits(tensor.encoding).name));
  }
  for (std::int64_t row = 0; row < count; ++row) {
    decode_row(tensor.encoding,
               tensor.data.data() + static_cast<std::size_t>(first + row) * *row_bytes, cols,
               values.data() + row * cols);
  }
  QUIRE_RETURN_IF_ERROR(check_finite(tensor, values));
  report(tensor);
  return device_->upload(std::move(values));
}

Result<std::vector<PackedWeight>> TensorLoader::stacked_matrices(TensorRole role,
                                                                 std::int64_t count,
                                                                 std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  const std::int64_t rows = tensor.shape[0] / count;
  std::vector<PackedWeight> packed;
  for (std::int64_t i = 0; i < count; ++i) {
    const Rows part = {.tensor = &tensor, .first = i * rows, .count = rows};
    QUIRE_ASSIGN_OR_RETURN(auto weight, packed_matrix(fmt::format("{}, part {}", tensor.name, i),
                                                      std::span(&part, 1)));
    packed.push_back(std::move(weight));
  }
  report(tensor);
  return packed;
}

Result<PackedWeight> TensorLoader::vocabulary(TensorRole role, std::int64_t rows) {
  const TensorInfo& tensor = *find(role, 0);
  std::vector<Rows> parts = {all_rows(tensor)};
  for (std::int64_t row = tensor.shape[0]; row < rows; ++row) {
    parts.push_back({.tensor = &tensor, .count = 1});
  }
  options_.vocabulary = true;
  auto packed = packed_matrix(tensor.name, parts);
  options_.vocabulary = false;
  report(tensor);
  return packed;
}

Result<PackedWeight> TensorLoader::router(TensorRole role, std::int64_t layer) {
  const LoadQuantization quantization = options_.quantization;
  options_.quantization = LoadQuantization::kNone;
  auto packed = matrix(role, layer);
  options_.quantization = quantization;
  return packed;
}

// `parts` as one matrix, which the cache knows by `name`, and by where it lies.
Result<PackedWeight> TensorLoader::packed_matrix(const std::string& name,
                                                 std::span<const Rows> parts) {
  const TensorInfo& tensor = *parts[0].tensor;
  auto weight = loaded_matrix(on_main() ? name : name + ", on the host", parts);
  if (!weight.ok()) {
    const Status status = weight.status();
    return Status(
        status.code(),
        fmt::format("{}: tensor {}: {}", tensor.file, printable(tensor.name), status.message()),
        status.remedy());
  }
  add_bytes(weight->size_bytes());
  return weight;
}

Result<PackedWeight> TensorLoader::loaded_matrix(const std::string& name,
                                                 std::span<const Rows> parts) {
  if (auto loaded = matrices_.find(name)) return *std::move(loaded);
  QUIRE_ASSIGN_OR_RETURN(auto weight, kept_or_packed(name, parts));
  std::vector<std::string> tensors;
  for (const Rows& part : parts) {
    if (tensors.empty() || tensors.back() != part.tensor->name) {
      tensors.push_back(part.tensor->name);
    }
  }
  return matrices_.add(name, std::move(tensors), std::move(weight));
}

Result<PackedWeight> TensorLoader::kept_or_packed(const std::string& name,
                                                  std::span<const Rows> parts) {
  if (cache_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(auto weight, packed(parts));
    return device_->adopt(std::move(weight));
  }
  std::int64_t outputs = 0;
  for (const Rows& part : parts) outputs += part.count;
  const std::int64_t inputs = parts[0].cols();
  const WeightLayout layout = layout_at_load(parts[0].tensor->encoding, inputs, options_);
  QUIRE_ASSIGN_OR_RETURN(auto kept, cache_->find(name, layout, outputs, inputs,
                                                 !parts[0].tensor->input_order.empty()));
  if (kept) return device_->adopt(*std::move(kept));
  QUIRE_ASSIGN_OR_RETURN(auto weight, packed(parts));
  cache_->add(name, weight, *device_);
  return device_->adopt(std::move(weight));
}

// Parts of one tensor follow each other, and share its rows.
Result<PackedWeight> TensorLoader::packed(std::span<const Rows> parts) {
  std::vector<TensorRows> read;
  std::vector<EncodedMatrix> matrices;
  const TensorInfo* last = nullptr;
  for (const Rows& part : parts) {
    const TensorInfo& tensor = *part.tensor;
    EncodedMatrix matrix = {tensor.encoding, part.count, part.cols(), part.made, nullptr};
    if (part.made == nullptr) {
      if (last != &tensor) {
        QUIRE_ASSIGN_OR_RETURN(auto rows, source_.rows(tensor, device_->host_threads()));
        read.push_back(std::move(rows));
        last = &tensor;
      }
      const std::uint64_t row_bytes = encoded_row_bytes(tensor.encoding, matrix.cols).value_or(0);
      matrix.data = read.back().data + static_cast<std::uint64_t>(part.first) * row_bytes;
      if (!tensor.input_order.empty()) matrix.input_order = tensor.input_order.data();
    }
    matrices.push_back(matrix);
  }
  return device_->pack(matrices, options_);
}

Status TensorLoader::append(const TensorInfo& tensor, std::vector<float>& values) {
  QUIRE_RETURN_IF_ERROR(append_row(tensor, 0, values));
  report(tensor);
  return {};
}

Status TensorLoader::append_row(const TensorInfo& tensor, std::int64_t row,
                                std::vector<float>& values) {
  const std::size_t begin = values.size();
  const std::int64_t width = tensor.shape.empty() ? 1 : tensor.shape.back();
  values.resize(begin + static_cast<std::size_t>(width));
  const auto row_bytes = encoded_row_bytes(tensor.encoding, width);
  if (!row_bytes) {
    return Status::bad_model(fmt::format("{}: tensor {}: {} elements are not whole {} blocks",
                                         tensor.file, printable(tensor.name), width,
                                         encoding_traits(tensor.encoding).name));
  }
  decode_row(tensor.encoding, tensor.data.data() + static_cast<std::uint64_t>(row) * *row_bytes,
             width, values.data() + begin);
  QUIRE_RETURN_IF_ERROR(check_finite(tensor, std::span(values).subspan(begin)));
  return {};
}

void TensorLoader::report(const TensorInfo& tensor) {
  done_ += tensor.bytes();
  if (progress_) progress_(done_, total_);
}

}  // namespace quire
