// Copies between the host and a GPU, by way of pinned memory of the host: such copies run beside
// the host's code, and several small ones to the GPU are one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {

// Pinned memory of the host in pieces that grow where a step needs more than any before it, with as
// much of the GPU's beside each, where it was made so.
class PinnedPieces {
 public:
  // `first_bytes`: of the first piece, which is there from the beginning.
  static Result<PinnedPieces> create(std::uint64_t first_bytes, bool on_device);
  PinnedPieces(PinnedPieces&& other) noexcept = default;
  PinnedPieces& operator=(PinnedPieces&&) = delete;
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;
  ~PinnedPieces();

  struct Place {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
  };
  // A place of so many bytes, aligned to 256. Throws std::bad_alloc where there is no memory for
  // it.
  Place take(std::uint64_t bytes);
  // All places are free again.
  void clear();
  bool has_new() const {
    return std::ranges::any_of(pieces_,
                               [](const Piece& piece) { return piece.copied < piece.used; });
  }
  // What has been taken since the last call and is to be copied to the device.
  template <typename F>
  void for_each_new(const F& copy) {
    for (Piece& piece : pieces_) {
      if (piece.copied < piece.used) {
        copy(Place{piece.host + piece.copied, piece.device + piece.copied},
             piece.used - piece.copied);
      }
      piece.copied = piece.used;
    }
  }

 private:
  struct Piece {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    std::uint64_t size = 0;
    std::uint64_t used = 0;
    std::uint64_t copied = 0;
  };

  explicit PinnedPieces(bool on_device) : on_device_(on_device) {}
  Status add_piece(std::uint64_t bytes);

  bool on_device_;
  std::vector<Piece> pieces_;
};

// The copies of one stream, in its order.
class Transfers {
 public:
  static Result<Transfers> create(CUstream_st* stream, std::uint64_t staged_bytes,
                                  std::uint64_t downloaded_bytes);

  // What was staged before need not stay. The stream is idle.
  void begin_step();
  // The host writes to `host`; what follows in the stream sees that at `device`.
  PinnedPieces::Place stage(std::uint64_t bytes) { return up_.take(bytes); }
  // Whether something was staged that is not on its way.
  bool has_staged() const { return up_.has_new(); }
  // Before a kernel is enqueued that may read what was staged.
  void enqueue_staged();
  // Between two places of the GPU.
  void copy(const std::byte* from, std::uint64_t bytes, std::byte* to);
  // From the host's memory, pinned or not.
  void upload(std::span<const std::byte> from, std::byte* to);
  // A copy in pinned memory, there when the stream is synchronized, until finish_downloads().
  const std::byte* download(const std::byte* from, std::uint64_t bytes);
  // The same of some rows of an array, one after the other.
  const std::byte* download_rows(const std::byte* from, std::uint64_t row_bytes,
                                 std::span<const std::size_t> rows);
  // As download(), to `to`, written by finish_downloads().
  void download_to(const std::byte* from, std::span<std::byte> to);
  // The stream is synchronized: writes what download_to() has asked for, and forgets all downloads.
  void finish_downloads();
  // synchronize() gives it, unless there is an earlier one.
  void keep_error(Status error) {
    if (error_.ok()) error_ = std::move(error);
  }
  // Waits until all copies and ops are done: the first error of any since the last call, launches
  // among them. Downloads stay.
  Status synchronize();

 private:
  struct Download {
    const std::byte* from = nullptr;
    std::span<std::byte> to;
  };

  Transfers(CUstream_st* stream, PinnedPieces up, PinnedPieces down)
      : stream_(stream), up_(std::move(up)), down_(std::move(down)) {}
  void enqueue_download(const std::byte* from, std::uint64_t bytes, std::byte* to);
  void keep(int error, const char* doing);

  CUstream_st* stream_;
  PinnedPieces up_;
  PinnedPieces down_;
  std::vector<Download> downloads_;
  Status error_;
};

}  // namespace quire::cuda
