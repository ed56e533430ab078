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

constexpr std::int64_t kPartsOfAHead = 3;  // query, key and value

TensorRoles roles_of(const std::vector<TensorShape>& tensors) {
  TensorRoles roles;
  for (const TensorShape& tensor : tensors) roles.set(static_cast<std::size_t>(tensor.role));
  return roles;
}

// Whether nothing of the tensor is left to be read after these columns.
bool is_last(const TensorInfo& tensor, const TensorLoader::Columns& columns) {
  return columns.begin + (columns.count - 1) * columns.step == tensor.shape.back() - 1;
}

// Bytes of one number of an encoding that has no blocks; 0 of others.
std::size_t number_bytes(Encoding encoding) {
  if (encoding == Encoding::kF32) return 4;
  return encoding == Encoding::kF16 || encoding == Encoding::kBF16 ? 2 : 0;
}

}  // namespace

TensorLoader::TensorLoader(const DecoderSpec& spec, const WeightSource& source, Device& device,
                           const LoadProgress& progress, LoadQuantization quantization,
                           PackedCache* cache)
    : spec_(spec), source_(source), device_(device), progress_(progress), cache_(cache) {
  options_.quantization = quantization;
  options_.done = [&source](const std::uint8_t* data, std::uint64_t bytes) {
    source.release({data, bytes});
  };
  for (const TensorInfo& tensor : source.tensors()) total_ += tensor.data.size();
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
  bytes_ += values.size() * sizeof(float);
  return values;
}

Result<DeviceFloats> TensorLoader::vector(std::initializer_list<TensorRole> roles,
                                          std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto numbers, values(roles, layer));
  return device_.upload(std::move(numbers));
}

Result<DeviceFloats> TensorLoader::upload(std::vector<float> values) {
  return device_.upload(std::move(values));
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
  return device_.upload(std::move(weight));
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
  std::vector<const TensorInfo*> tensors;
  std::vector<EncodedMatrix> parts;
  for (const TensorRole role : roles) {
    const TensorInfo* tensor = find(role, layer);
    tensors.push_back(tensor);
    parts.push_back({tensor->encoding, tensor->shape[0], tensor->shape[1], tensor->data.data()});
  }
  const bool uniform = std::all_of(parts.begin(), parts.end(), [&](const EncodedMatrix& part) {
    return part.encoding == parts[0].encoding;
  });
  std::vector<PackedWeight> packed;
  const std::size_t step = uniform ? parts.size() : 1;
  for (std::size_t i = 0; i < parts.size(); i += step) {
    QUIRE_ASSIGN_OR_RETURN(
        auto weight, packed_matrix(*tensors[i], tensors[i]->name, std::span(&parts[i], step)));
    packed.push_back(std::move(weight));
  }
  for (const TensorInfo* tensor : tensors) report(*tensor);
  return packed;
}

Result<PackedWeight> TensorLoader::matrix(TensorRole role, std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto packed, matrices({role}, layer));
  return std::move(packed[0]);
}

Result<std::vector<PackedWeight>> TensorLoader::matrix_by_head(TensorRole role,
                                                               std::int64_t num_heads,
                                                               std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  const std::int64_t head_dim = tensor.shape[0] / (kPartsOfAHead * num_heads);
  const std::size_t bytes =
      tensor.data.size() / static_cast<std::size_t>(kPartsOfAHead * num_heads);
  std::vector<EncodedMatrix> parts;
  for (std::int64_t part = 0; part < kPartsOfAHead; ++part) {
    for (std::int64_t head = 0; head < num_heads; ++head) {
      const auto at = static_cast<std::size_t>(head * kPartsOfAHead + part) * bytes;
      parts.push_back({tensor.encoding, head_dim, tensor.shape[1], tensor.data.data() + at});
    }
  }
  std::vector<PackedWeight> packed;
  QUIRE_ASSIGN_OR_RETURN(auto weight, packed_matrix(tensor, tensor.name, parts));
  packed.push_back(std::move(weight));
  report(tensor);
  return packed;
}

Result<DeviceFloats> TensorLoader::vector_by_head(TensorRole role, std::int64_t num_heads,
                                                  std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(const auto by_head, values({role}, layer));
  const std::int64_t size = std::ssize(by_head);
  const std::int64_t head_dim = size / (kPartsOfAHead * num_heads);
  std::vector<float> by_part;
  by_part.reserve(by_head.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t part = i / (num_heads * head_dim);
    const std::int64_t head = i / head_dim % num_heads;
    by_part.push_back(
        by_head[static_cast<std::size_t>((head * kPartsOfAHead + part) * head_dim + i % head_dim)]);
  }
  return device_.upload(std::move(by_part));
}

Result<std::vector<PackedWeight>> TensorLoader::stacked_matrices(TensorRole role,
                                                                 std::int64_t count,
                                                                 std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  const std::int64_t rows = tensor.shape[0] / count;
  std::vector<PackedWeight> packed;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t bytes = tensor.data.size() / static_cast<std::size_t>(count);
    const EncodedMatrix part = {tensor.encoding, rows, tensor.shape[1],
                                tensor.data.data() + static_cast<std::size_t>(i) * bytes};
    QUIRE_ASSIGN_OR_RETURN(
        auto weight,
        packed_matrix(tensor, fmt::format("{}, part {}", tensor.name, i), std::span(&part, 1)));
    packed.push_back(std::move(weight));
  }
  report(tensor);
  return packed;
}

Result<PackedWeight> TensorLoader::vocabulary(TensorRole role) {
  options_.vocabulary = true;
  auto packed = matrix(role);
  options_.vocabulary = false;
  return packed;
}

Result<std::vector<PackedWeight>> TensorLoader::experts(TensorRole role, std::int64_t count,
                                                        std::int64_t layer) {
  std::vector<EncodedMatrix> parts;
  const TensorInfo& first = *find(role, layer);
  for (std::int64_t i = 0; first.shape.size() == 2 && i < count; ++i) {
    const TensorInfo& tensor = *find(role, layer, i);
    parts.push_back({tensor.encoding, tensor.shape[0], tensor.shape[1], tensor.data.data()});
    report(tensor);
  }
  if (first.shape.size() == 3) {
    const std::int64_t rows = first.shape[0] * first.shape[1] / count;
    const std::size_t bytes = first.data.size() / static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      parts.push_back({first.encoding, rows, first.shape[2], first.data.data() + i * bytes});
    }
    report(first);
  }
  return packed_alike(first, "expert", parts);
}

Result<std::vector<PackedWeight>> TensorLoader::turned_experts(TensorRole role, std::int64_t count,
                                                               std::int64_t layer,
                                                               Columns columns) {
  const TensorInfo& tensor = *find(role, layer);
  const std::size_t size = number_bytes(tensor.encoding);
  if (size == 0) {
    return Status::unimplemented(
        fmt::format("{}: tensor {}: {} matrices of experts whose rows are inputs are not supported",
                    tensor.file, printable(tensor.name), encoding_traits(tensor.encoding).name),
        "use a checkpoint of F32, F16 or BF16");
  }
  const auto inputs = static_cast<std::size_t>(tensor.shape[1]);
  const auto width = static_cast<std::size_t>(tensor.shape[2]);
  const auto outputs = static_cast<std::size_t>(columns.count);
  QUIRE_ASSIGN_OR_RETURN(  // a part of what the file has
      const Buffer buffer,
      Buffer::allocate(static_cast<std::size_t>(count) * inputs * outputs * size));
  auto* const turned = reinterpret_cast<std::uint8_t*>(buffer.data());
  std::vector<EncodedMatrix> parts;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::uint8_t* const to = turned + i * inputs * outputs * size;
    parts.push_back({tensor.encoding, columns.count, tensor.shape[1], to});
  }
  device_.host_threads().parallel_for(
      count * columns.count, 16, [&](std::int64_t begin, std::int64_t end, int) {
        for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end);
             ++row) {
          const std::size_t column = static_cast<std::size_t>(columns.begin) +
                                     row % outputs * static_cast<std::size_t>(columns.step);
          const std::uint8_t* from =
              tensor.data.data() + (row / outputs * inputs * width + column) * size;
          std::uint8_t* const to = turned + row * inputs * size;
          for (std::size_t i = 0; i < inputs; ++i) {
            std::memcpy(to + i * size, from + i * width * size, size);
          }
        }
      });
  const auto done = std::exchange(options_.done, nullptr);  // it knows the checkpoint's bytes alone
  auto packed = packed_alike(tensor, fmt::format("columns from {}, expert", columns.begin), parts);
  options_.done = done;
  if (is_last(tensor, columns)) {
    report(tensor);
    source_.release(tensor.data);
  }
  return packed;
}

Result<DeviceFloats> TensorLoader::expert_vectors(TensorRole role, std::int64_t count,
                                                  std::int64_t layer, Columns columns) {
  const TensorInfo& tensor = *find(role, layer);
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i) QUIRE_RETURN_IF_ERROR(append_row(tensor, i, all));
  std::vector<float> picked;
  picked.reserve(static_cast<std::size_t>(count * columns.count));
  for (std::int64_t i = 0; i < count * columns.count; ++i) {
    const std::int64_t column = columns.begin + i % columns.count * columns.step;
    picked.push_back(all[static_cast<std::size_t>(i / columns.count * tensor.shape[1] + column)]);
  }
  bytes_ += picked.size() * sizeof(float);
  if (is_last(tensor, columns)) report(tensor);
  return device_.upload(std::move(picked));
}

// As one matrix where each ends with a panel: many small mappings would have no large pages.
Result<std::vector<PackedWeight>> TensorLoader::packed_alike(
    const TensorInfo& first, std::string_view kind, const std::vector<EncodedMatrix>& parts) {
  const bool together = std::ranges::all_of(parts, [&](const EncodedMatrix& part) {
    return part.encoding == parts[0].encoding && part.rows % kPanelOutputs == 0;
  });
  std::vector<PackedWeight> experts;
  experts.reserve(parts.size());
  if (!together) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(auto weight,
                             packed_matrix(first, fmt::format("{}, {} {}", first.name, kind, i),
                                           std::span(&parts[i], 1)));
      experts.push_back(std::move(weight));
    }
    return experts;
  }
  QUIRE_ASSIGN_OR_RETURN(
      auto packed,
      packed_matrix(first, fmt::format("{}, {} {}s", first.name, parts.size(), kind), parts));
  const auto all = std::make_shared<const PackedWeight>(std::move(packed));
  const std::size_t bytes = all->bytes().size() / parts.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    experts.push_back(PackedWeight::view(all->layout(), parts[i].rows, parts[i].cols,
                                         all->bytes().subspan(i * bytes, bytes), all));
  }
  return experts;
}

Result<PackedWeight> TensorLoader::router(TensorRole role, std::int64_t layer) {
  const LoadQuantization quantization = options_.quantization;
  options_.quantization = LoadQuantization::kNone;
  auto packed = matrix(role, layer);
  options_.quantization = quantization;
  return packed;
}

// `parts`, the first of `tensor`, as one matrix, which the cache knows by `name`.
Result<PackedWeight> TensorLoader::packed_matrix(const TensorInfo& tensor, const std::string& name,
                                                 std::span<const EncodedMatrix> parts) {
  auto weight = kept_or_packed(name, parts);
  if (!weight.ok()) {
    const Status status = weight.status();
    return Status(
        status.code(),
        fmt::format("{}: tensor {}: {}", tensor.file, printable(tensor.name), status.message()),
        status.remedy());
  }
  bytes_ += weight->size_bytes();
  return weight;
}

Result<PackedWeight> TensorLoader::kept_or_packed(const std::string& name,
                                                  std::span<const EncodedMatrix> parts) {
  if (cache_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(auto packed, device_.pack(parts, options_));
    return device_.adopt(std::move(packed));
  }
  std::int64_t outputs = 0;
  for (const EncodedMatrix& part : parts) outputs += part.rows;
  const std::int64_t inputs = parts[0].cols;
  const WeightLayout layout = layout_at_load(parts[0].encoding, inputs, options_);
  QUIRE_ASSIGN_OR_RETURN(auto kept, cache_->find(name, layout, outputs, inputs));
  if (kept) return device_.adopt(*std::move(kept));
  QUIRE_ASSIGN_OR_RETURN(auto packed, device_.pack(parts, options_));
  cache_->add(name, packed, device_);
  return device_.adopt(std::move(packed));
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
  if (!std::all_of(values.begin() + static_cast<std::ptrdiff_t>(begin), values.end(),
                   [](float v) { return std::isfinite(v); })) {
    return Status::bad_model(fmt::format("{}: tensor {} has values that are not finite",
                                         tensor.file, printable(tensor.name)),
                             "fetch the file again");
  }
  return {};
}

void TensorLoader::report(const TensorInfo& tensor) {
  done_ += tensor.data.size();
  if (progress_) progress_(done_, total_);
}

}  // namespace quire
