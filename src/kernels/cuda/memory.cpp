#include "kernels/cuda/memory.h"

#include <algorithm>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <iterator>

#include <fmt/format.h>

#include "kernels/cuda/errors.h"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kAlignment = 4096;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// A function of the driver, which is not linked: a program starts on machines without one.
template <typename F>
F* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, CUDART_VERSION, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<F*>(function);
}

struct Driver {
  decltype(cuMemGetAllocationGranularity)* granularity =
      driver_function<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(cuMemAddressReserve)* reserve =
      driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(cuMemAddressFree)* free_range =
      driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree");
  decltype(cuMemCreate)* create = driver_function<decltype(cuMemCreate)>("cuMemCreate");
  decltype(cuMemRelease)* release = driver_function<decltype(cuMemRelease)>("cuMemRelease");
  decltype(cuMemMap)* map = driver_function<decltype(cuMemMap)>("cuMemMap");
  decltype(cuMemUnmap)* unmap = driver_function<decltype(cuMemUnmap)>("cuMemUnmap");
  decltype(cuMemSetAccess)* set_access =
      driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");

  bool complete() const {
    return granularity != nullptr && reserve != nullptr && free_range != nullptr &&
           create != nullptr && release != nullptr && map != nullptr && unmap != nullptr &&
           set_access != nullptr;
  }
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

CUmemAllocationProp pages_of(int device_index) {
  CUmemAllocationProp pages = {};
  pages.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  pages.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_index};
  return pages;
}

CUdeviceptr address(const std::byte* data) { return reinterpret_cast<CUdeviceptr>(data); }

Status driver_status(CUresult result, std::string_view doing) {
  if (result == CUDA_SUCCESS) return {};
  return cuda::to_status(
      result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : cudaErrorUnknown, doing);
}

}  // namespace

Memory::~Memory() {
  release_all();
  if (range_ != nullptr) (void)driver().free_range(address(range_), range_bytes_);
}

Status Memory::reserve() {
  if (range_ != nullptr) return {};
  if (!driver().complete()) {
    return Status::unavailable("the GPU's driver is too old for the memory of these kernels",
                               "update it, or use --device cpu");
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  QUIRE_RETURN_IF_ERROR(
      cuda::to_status(cudaMemGetInfo(&free_bytes, &total_bytes), "look at the GPU's memory"));
  const CUmemAllocationProp pages = pages_of(device_index_);
  std::size_t page = 0;
  QUIRE_RETURN_IF_ERROR(driver_status(
      driver().granularity(&page, &pages, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "look at its pages"));
  page_bytes_ = page;
  range_bytes_ = round_up(total_bytes, page);
  CUdeviceptr range = 0;
  QUIRE_RETURN_IF_ERROR(
      driver_status(driver().reserve(&range, range_bytes_, 0, 0, 0), "reserve addresses"));
  range_ = reinterpret_cast<std::byte*>(range);
  return {};
}

Status Memory::grow(std::uint64_t bytes) {
  const std::uint64_t size = round_up(bytes, page_bytes_);
  const std::string doing = fmt::format("take {} bytes more of the GPU's memory", size);
  if (size > range_bytes_ - mapped_) {
    return cuda::to_status(cudaErrorMemoryAllocation, doing);
  }
  const CUmemAllocationProp pages = pages_of(device_index_);
  CUmemGenericAllocationHandle handle = 0;
  QUIRE_RETURN_IF_ERROR(driver_status(driver().create(&handle, size, &pages, 0), doing));
  if (const CUresult mapped = driver().map(address(range_ + mapped_), size, 0, handle, 0);
      mapped != CUDA_SUCCESS) {
    (void)driver().release(handle);
    return driver_status(mapped, doing);
  }
  mappings_.push_back({.handle = handle, .size = size});
  CUmemAccessDesc access = {};
  access.location = pages.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  QUIRE_RETURN_IF_ERROR(
      driver_status(driver().set_access(address(range_ + mapped_), size, &access, 1), doing));
  mapped_ += size;
  return {};
}

std::byte* Memory::take_free(std::uint64_t bytes) {
  const auto piece = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& each) { return each.second >= bytes; });
  if (piece == free_.end()) return nullptr;
  std::byte* const data = piece->first;
  const std::uint64_t rest = piece->second - bytes;
  free_.erase(piece);
  if (rest > 0) free_.emplace(data + bytes, rest);
  return data;
}

Result<std::byte*> Memory::take(std::uint64_t bytes) {
  const std::uint64_t padded = round_up(bytes, kAlignment);
  const std::lock_guard lock(mutex_);
  QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaSetDevice(device_index_), "use the GPU"));
  QUIRE_RETURN_IF_ERROR(reserve());
  std::byte* data = take_free(padded);
  if (data == nullptr) {
    if (padded > mapped_ - used_) QUIRE_RETURN_IF_ERROR(grow(padded - (mapped_ - used_)));
    data = range_ + used_;
    used_ += padded;
  }
  taken_.emplace(data, padded);
  QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaMemset(data, 0, bytes), "clear the GPU's memory"));
  // Streams of ops do not wait for the one that clears.
  QUIRE_RETURN_IF_ERROR(cuda::to_status(cudaStreamSynchronize(nullptr), "clear the GPU's memory"));
  return data;
}

void Memory::give_back(std::byte* data) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(data);
  auto piece = free_.emplace(data, taken->second).first;
  taken_.erase(taken);
  if (taken_.empty()) return release_all();
  if (const auto next = std::next(piece);
      next != free_.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece != free_.begin()) {
    const auto before = std::prev(piece);
    if (before->first + before->second == piece->first) {
      before->second += piece->second;
      free_.erase(piece);
    }
  }
}

void Memory::release_all() {
  if (range_ == nullptr) return;
  (void)cudaSetDevice(device_index_);
  (void)cudaDeviceSynchronize();  // until no kernel uses it
  std::byte* at = range_;
  for (const Mapping& mapping : mappings_) {
    (void)driver().unmap(address(at), mapping.size);
    (void)driver().release(mapping.handle);
    at += mapping.size;
  }
  mappings_.clear();
  free_.clear();
  mapped_ = used_ = 0;
}

}  // namespace quire::cuda
