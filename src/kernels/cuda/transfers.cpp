#include "kernels/cuda/transfers.h"

#include <algorithm>
#include <cuda_runtime_api.h>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/errors.h"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kPlaceAlignment = 256;

}  // namespace

Result<PinnedPieces> PinnedPieces::create(std::uint64_t first_bytes, bool on_device) {
  PinnedPieces pieces(on_device);
  QUIRE_RETURN_IF_ERROR(pieces.add_piece(first_bytes));
  return pieces;
}

PinnedPieces::~PinnedPieces() {
  for (const Piece& piece : pieces_) {
    (void)cudaFreeHost(piece.host);
    (void)cudaFree(piece.device);
  }
}

Status PinnedPieces::add_piece(std::uint64_t bytes) {
  void* host = nullptr;
  QUIRE_RETURN_IF_ERROR(to_status(cudaMallocHost(&host, bytes),
                                  fmt::format("pin {} bytes of the host's memory", bytes)));
  void* device = nullptr;
  if (on_device_) {
    if (const cudaError_t error = cudaMalloc(&device, bytes); error != cudaSuccess) {
      (void)cudaFreeHost(host);
      return to_status(error, fmt::format("allocate {} bytes of the GPU's memory", bytes));
    }
  }
  pieces_.push_back({.host = static_cast<std::byte*>(host),
                     .device = static_cast<std::byte*>(device),
                     .size = bytes});
  return {};
}

PinnedPieces::Place PinnedPieces::take(std::uint64_t bytes) {
  const std::uint64_t padded = (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  auto piece = std::ranges::find_if(
      pieces_, [&](const Piece& each) { return each.size - each.used >= padded; });
  if (piece == pieces_.end()) {
    // At least as much as the largest, so that the number of pieces stays small.
    const Status added = add_piece(std::max(padded, pieces_.back().size));
    if (!added.ok()) throw std::bad_alloc();  // base/exhaustion.h
    piece = std::prev(pieces_.end());
  }
  const Place place = {piece->host + piece->used, piece->device + piece->used};
  piece->used += padded;
  return place;
}

void PinnedPieces::clear() {
  for (Piece& piece : pieces_) piece.used = piece.copied = 0;
}

Result<Transfers> Transfers::create(CUstream_st* stream, std::uint64_t staged_bytes,
                                    std::uint64_t downloaded_bytes) {
  QUIRE_ASSIGN_OR_RETURN(PinnedPieces up, PinnedPieces::create(staged_bytes, true));
  QUIRE_ASSIGN_OR_RETURN(PinnedPieces down, PinnedPieces::create(downloaded_bytes, false));
  return Transfers(stream, std::move(up), std::move(down));
}

void Transfers::begin_step() {
  up_.clear();
  downloads_.clear();
  down_.clear();
}

void Transfers::keep(int error, const char* doing) {
  keep_error(to_status(static_cast<cudaError_t>(error), doing));
}

void Transfers::enqueue_staged() {
  up_.for_each_new([&](const PinnedPieces::Place& place, std::uint64_t bytes) {
    keep(cudaMemcpyAsync(place.device, place.host, bytes, cudaMemcpyHostToDevice, stream_),
         "copy a step's inputs to the GPU");
  });
}

void Transfers::enqueue_download(const std::byte* from, std::uint64_t bytes, std::byte* to) {
  keep(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
       "copy results from the GPU");
}

void Transfers::copy(const std::byte* from, std::uint64_t bytes, std::byte* to) {
  keep(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "compute a step");
}

void Transfers::upload(std::span<const std::byte> from, std::byte* to) {
  keep(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
       "copy results of the processor to the GPU");
}

const std::byte* Transfers::download(const std::byte* from, std::uint64_t bytes) {
  std::byte* const to = down_.take(bytes).host;
  enqueue_download(from, bytes, to);
  return to;
}

const std::byte* Transfers::download_rows(const std::byte* from, std::uint64_t row_bytes,
                                          std::span<const std::size_t> rows) {
  std::byte* const first = down_.take(rows.size() * row_bytes).host;
  std::byte* to = first;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;  // of rows that lie one after the other
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    enqueue_download(from + rows[i] * row_bytes, (end - i) * row_bytes, to);
    to += (end - i) * row_bytes;
    i = end;
  }
  return first;
}

void Transfers::download_to(const std::byte* from, std::span<std::byte> to) {
  downloads_.push_back({download(from, to.size()), to});
}

void Transfers::finish_downloads() {
  for (const Download& each : downloads_) {
    std::copy_n(each.from, each.to.size(), each.to.begin());
  }
  downloads_.clear();
  down_.clear();
}

Status Transfers::synchronize() {
  keep(cudaGetLastError(), "compute a step");
  keep(cudaStreamSynchronize(stream_), "compute a step");
  return std::exchange(error_, Status());
}

}  // namespace quire::cuda
