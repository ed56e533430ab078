// The part of TensorLoader for matrices and vectors that a layer has several of, alike.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "models/tensor_loader.h"
#include "quant/encoding.h"
#include "tensor/buffer.h"

namespace quire {
namespace {

// Whether of `count` columns these take the last: nothing is left to be read after them.
bool ends_at(const TensorLoader::Columns& columns, std::int64_t count) {
  return columns.begin + (columns.count - 1) * columns.step == count - 1;
}

// Bytes of one number of an encoding that has no blocks; 0 of others.
std::size_t plain_number_bytes(Encoding encoding) {
  if (encoding == Encoding::kF32) return 4;
  return encoding == Encoding::kF16 || encoding == Encoding::kBF16 ? 2 : 0;
}

}  // namespace

Result<std::vector<PackedWeight>> TensorLoader::experts(TensorRole role, std::int64_t count,
                                                        std::int64_t layer) {
  std::vector<Rows> parts;
  const TensorInfo& first = *find(role, layer);
  for (std::int64_t i = 0; first.shape.size() == 2 && i < count; ++i) {
    const TensorInfo& tensor = *find(role, layer, i);
    parts.push_back(all_rows(tensor));
    report(tensor);
  }
  if (first.shape.size() == 3) {
    const std::int64_t rows = first.shape[0] * first.shape[1] / count;
    for (std::int64_t i = 0; i < count; ++i)
      parts.push_back({.tensor = &first, .first = i * rows, .count = rows});
    report(first);
  }
  return packed_alike("expert", parts);
}

Result<std::vector<PackedWeight>> TensorLoader::turned_experts(TensorRole role, std::int64_t count,
                                                               std::int64_t layer,
                                                               Columns columns) {
  const TensorInfo& tensor = *find(role, layer);
  const std::size_t size = plain_number_bytes(tensor.encoding);
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
  std::vector<Rows> parts;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    parts.push_back({.tensor = &tensor,
                     .count = columns.count,
                     .made = turned + i * inputs * outputs * size,
                     .made_cols = tensor.shape[1]});
  }
  device_->host_threads().parallel_for(
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
  return packed_made(columns, parts, ends_at(columns, tensor.shape[2]));
}

Result<std::vector<PackedWeight>> TensorLoader::picked_experts(TensorRole role, std::int64_t count,
                                                               std::int64_t layer, Columns rows) {
  const TensorInfo& tensor = *find(role, layer);
  QUIRE_ASSIGN_OR_RETURN(const TensorRows read, source_.rows(tensor, device_->host_threads()));
  const std::uint64_t row_bytes = encoded_row_bytes(tensor.encoding, tensor.shape[2]).value_or(0);
  const auto outputs = static_cast<std::uint64_t>(rows.count);
  QUIRE_ASSIGN_OR_RETURN(  // a part of what the file has
      const Buffer buffer,
      Buffer::allocate(static_cast<std::uint64_t>(count) * outputs * row_bytes));
  auto* const picked = reinterpret_cast<std::uint8_t*>(buffer.data());
  std::vector<Rows> parts;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    parts.push_back({.tensor = &tensor,
                     .count = rows.count,
                     .made = picked + i * outputs * row_bytes,
                     .made_cols = tensor.shape[2]});
  }
  device_->host_threads().parallel_for(
      count * rows.count, 64, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row =
              i / rows.count * tensor.shape[1] + rows.begin + i % rows.count * rows.step;
          std::memcpy(picked + static_cast<std::uint64_t>(i) * row_bytes,
                      read.data + static_cast<std::uint64_t>(row) * row_bytes, row_bytes);
        }
      });
  return packed_made(rows, parts, ends_at(rows, tensor.shape[1]));
}

Result<std::vector<PackedWeight>> TensorLoader::packed_made(const Columns& columns,
                                                            const std::vector<Rows>& parts,
                                                            bool is_last) {
  const TensorInfo& tensor = *parts[0].tensor;
  const auto done = std::exchange(options_.done, nullptr);  // it knows the checkpoint's bytes alone
  auto packed = packed_alike(fmt::format("columns from {}, expert", columns.begin), parts);
  options_.done = done;
  if (is_last) {
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
  add_bytes(picked.size() * sizeof(float));
  if (ends_at(columns, tensor.shape[1])) report(tensor);
  return device_->upload(std::move(picked));
}

// As one matrix where each ends with a panel: many small mappings would have no large pages.
Result<std::vector<PackedWeight>> TensorLoader::packed_alike(std::string_view kind,
                                                             const std::vector<Rows>& parts) {
  const std::string& name = parts[0].tensor->name;
  const bool together = std::ranges::all_of(parts, [&](const Rows& part) {
    return part.tensor->encoding == parts[0].tensor->encoding && part.count % kPanelOutputs == 0 &&
           part.tensor->input_order.empty();
  });
  std::vector<PackedWeight> experts;
  experts.reserve(parts.size());
  if (!together) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(auto weight, packed_matrix(fmt::format("{}, {} {}", name, kind, i),
                                                        std::span(&parts[i], 1)));
      experts.push_back(std::move(weight));
    }
    return experts;
  }
  QUIRE_ASSIGN_OR_RETURN(auto packed,
                         packed_matrix(fmt::format("{}, {} {}s", name, parts.size(), kind), parts));
  const auto all = std::make_shared<const PackedWeight>(std::move(packed));
  const std::size_t bytes = all->bytes().size() / parts.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    experts.push_back(PackedWeight::view(all->layout(), parts[i].count, parts[i].cols(),
                                         all->bytes().subspan(i * bytes, bytes), all));
  }
  return experts;
}

}  // namespace quire
