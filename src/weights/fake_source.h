// For tests: a checkpoint whose tensors lie in memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weights/quantized_source.h"
#include "weights/weight_source.h"

namespace quire {

class FakeSource final : public WeightSource {
 public:
  template <typename T>
  void add(const std::string& name, Encoding encoding, std::vector<std::int64_t> shape,
           const std::vector<T>& values) {
    auto& bytes = data_.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    tensors_.push_back({.name = name,
                        .encoding = encoding,
                        .shape = std::move(shape),
                        .data = bytes,
                        .file = "m.safetensors",
                        .file_offset = 0});
  }
  void remove(std::string_view name) {
    std::erase_if(tensors_, [&](const TensorInfo& tensor) { return tensor.name == name; });
  }
  TensorInfo& at(std::string_view name) {
    return *std::ranges::find(tensors_, name, &TensorInfo::name);
  }

  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  void release(std::span<const std::uint8_t>) const override {}
  std::vector<const MappedFile*> files() const override { return {}; }

 private:
  std::deque<std::vector<std::uint8_t>> data_;
  std::vector<TensorInfo> tensors_;
};

// As a checkpoint that was quantized so, by no more of a configuration than the method's name.
inline Result<std::unique_ptr<WeightSource>> open_fake(FakeSource source, QuantizationMethod method,
                                                       const std::string& name) {
  QuantizationConfig config;
  config.method = method;
  config.name = name;
  return open_quantized(std::make_unique<FakeSource>(std::move(source)), config);
}

}  // namespace quire
