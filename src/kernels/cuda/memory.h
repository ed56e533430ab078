// Where buffers in a GPU's memory come from. cudaMalloc() gives memory in pages of 2 MiB each, so
// that a model's hundreds of matrices would take several percent more than their sizes. Here pieces
// of one range of addresses lie side by side, and physical pages are mapped behind it as it grows
// (CUDA driver API, "Virtual Memory Management"): what is taken is what was asked for, to 2 MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace quire::cuda {

// Any thread. What it gave is given back before its end.
class Memory {
 public:
  explicit Memory(int device_index) : device_index_(device_index) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Zeros, aligned to 4096 bytes; bytes > 0. kResourceExhausted.
  Result<std::byte*> take(std::uint64_t bytes);
  // Pieces between others that are in use serve later calls of take().
  void give_back(std::byte* data);

 private:
  // Physical pages, mapped one after the other from the beginning of the range.
  struct Mapping {
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
  };

  Status reserve();
  // Maps pages for at least `bytes` more.
  Status grow(std::uint64_t bytes);
  std::byte* take_free(std::uint64_t bytes);
  void release_all();

  int device_index_;
  std::mutex mutex_;
  std::uint64_t page_bytes_ = 0;
  std::byte* range_ = nullptr;
  std::uint64_t range_bytes_ = 0;
  std::uint64_t mapped_ = 0;  // from the range's beginning
  std::uint64_t used_ = 0;    // the same, of what was ever handed out
  std::vector<Mapping> mappings_;
  std::map<std::byte*, std::uint64_t> taken_;  // sizes by address
  std::map<std::byte*, std::uint64_t> free_;   // the same; no two are neighbours
};

}  // namespace quire::cuda
