#include "weights/mxfp4_source.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/printable.h"
#include "quant/fp4_tensor.h"
#include "tensor/thread_pool.h"
#include "weights/module_parts.h"

namespace quire {
namespace {

constexpr std::string_view kBlocksSuffix = "_blocks";
constexpr std::string_view kScalesSuffix = "_scales";
constexpr std::int64_t kMxBlock = 32;  // numbers that share a scale
constexpr std::int64_t kMxBytes = 16;  // of a block

class Mxfp4Source final : public WeightSource {
 public:
  explicit Mxfp4Source(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {}

  Status read() {
    std::set<const TensorInfo*> scales;
    for (const TensorInfo& tensor : source_->tensors()) {
      if (!tensor.name.ends_with(kBlocksSuffix)) continue;
      QUIRE_ASSIGN_OR_RETURN(const Parts parts, read_parts(tensor));
      scales.insert(parts.scales);
    }
    for (const TensorInfo& tensor : source_->tensors()) {
      if (tensor.name.ends_with(kBlocksSuffix)) {
        tensors_.push_back(joined(parts_.at(name_of(tensor))));
      } else if (!scales.contains(&tensor)) {
        if (!holds_weights(tensor.encoding)) {
          return wrong_part(tensor, fmt::format("{} belongs to no tensor of mxfp4",
                                                encoding_traits(tensor.encoding).name));
        }
        tensors_.push_back(tensor);
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!index_.emplace(tensors_[i].name, i).second) {
        return wrong_part(tensors_[i], "it is there both quantized and not");
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
    const auto found = parts_.find(tensor.name);
    if (found == parts_.end()) return source_->rows(tensor, pool);
    const Parts& parts = found->second;
    const auto num_blocks = static_cast<std::int64_t>(parts.scales->data.size());
    const auto bytes = checked_mul(static_cast<std::uint64_t>(num_blocks), kMxBytes + 1);
    if (!bytes) return Status::bad_model("a tensor of more than 2^64 bytes");
    TensorRows rows;
    QUIRE_ASSIGN_OR_RETURN(rows.memory, Buffer::allocate(*bytes));
    auto* const out = reinterpret_cast<std::uint8_t*>(rows.memory.data());
    rows.data = out;
    std::atomic<bool> finite = true;
    constexpr std::int64_t kBlocksAtOnce = 4096;
    pool.parallel_for(num_blocks, kBlocksAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::uint8_t scale = parts.scales->data[static_cast<std::size_t>(i)];
        if (scale > kLargestMxScale) finite = false;
        write_mxfp4_block(scale, parts.blocks->data.data() + i * kMxBytes,
                          out + i * (kMxBytes + 1));
      }
    });
    source_->release(parts.blocks->data);
    source_->release(parts.scales->data);
    if (!finite) {
      return wrong_part(*parts.scales, fmt::format("scales above {}, of numbers that float32 does "
                                                   "not hold",
                                                   kLargestMxScale));
    }
    return rows;
  }

  void release(std::span<const std::uint8_t> data) const override { source_->release(data); }
  std::vector<const MappedFile*> files() const override { return source_->files(); }

 private:
  struct Parts {
    const TensorInfo* blocks = nullptr;
    const TensorInfo* scales = nullptr;
  };

  static std::string name_of(const TensorInfo& blocks) {
    return blocks.name.substr(0, blocks.name.size() - kBlocksSuffix.size());
  }

  Result<Parts> read_parts(const TensorInfo& blocks) {
    std::string name = name_of(blocks);
    const TensorInfo* const scales = source_->find(name + std::string(kScalesSuffix));
    if (scales == nullptr) {
      return Status::bad_model(fmt::format("{}: tensor {}: there is no {}{}", blocks.file,
                                           printable(blocks.name), printable(name), kScalesSuffix),
                               "fetch the model again; all parts of a matrix must be there");
    }
    if (blocks.shape.size() != 4) return expect_part(blocks, Encoding::kU8, {1, 1, 1, kMxBytes});
    const auto& shape = blocks.shape;
    QUIRE_RETURN_IF_ERROR(
        expect_part(blocks, Encoding::kU8, {shape[0], shape[1], shape[2], kMxBytes}));
    QUIRE_RETURN_IF_ERROR(expect_part(*scales, Encoding::kU8, {shape[0], shape[1], shape[2]}));
    if (shape[2] < 1 || shape[2] > kMaxPartSize / kMxBlock) {
      return wrong_part(blocks, fmt::format("{} blocks in a row", shape[2]));
    }
    return parts_.emplace(std::move(name), Parts{&blocks, scales}).first->second;
  }

  static TensorInfo joined(const Parts& parts) {
    const auto& shape = parts.blocks->shape;
    return {.name = name_of(*parts.blocks),
            .encoding = Encoding::kMXFP4,
            .shape = {shape[0], shape[1], shape[2] * kMxBlock},
            .data = {},
            .file = parts.blocks->file,
            .file_offset = parts.blocks->file_offset,
            .parts_bytes = parts.blocks->data.size() + parts.scales->data.size(),
            .format = "mxfp4"};
  }

  std::unique_ptr<WeightSource> source_;
  std::map<std::string, Parts, std::less<>> parts_;  // by the name of the tensor that they make
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, std::size_t> index_;
};

}  // namespace

Result<std::unique_ptr<WeightSource>> open_mxfp4(std::unique_ptr<WeightSource> source) {
  auto joined = std::make_unique<Mxfp4Source>(std::move(source));
  QUIRE_RETURN_IF_ERROR(joined->read());
  return std::unique_ptr<WeightSource>(std::move(joined));
}

}  // namespace quire
