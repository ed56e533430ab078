// A model's vectors (biases, weights of norms, rotary tables), as the ops of one device read them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace quire {

// Numbers that do not change any more. Copies share them.
class DeviceFloats {
 public:
  DeviceFloats() = default;
  // `size` numbers at `data`, which `owner` keeps.
  DeviceFloats(const float* data, std::int64_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  // In the host's memory.
  static DeviceFloats of_host(std::vector<float> values) {
    const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
    return {owner->data(), static_cast<std::int64_t>(owner->size()), owner};
  }

  bool empty() const { return size_ == 0; }
  std::int64_t size() const { return size_; }
  const float* data() const { return data_; }  // in the device's memory

  // From number `first` on; nullptr where there are none at all.
  const float* data_or_null(std::int64_t first = 0) const {
    return empty() ? nullptr : data_ + first;
  }

 private:
  const float* data_ = nullptr;
  std::int64_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace quire
