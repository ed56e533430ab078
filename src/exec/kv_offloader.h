// The way of KV blocks to files and back, beside the steps: `--kv-offload-path`.
//
//   the executor's thread           the offloader's own thread
//   page -> a free buffer    -->    buffer -> file
//   fetch                    -->    file -> its buffer -> page, on a stream of its own
//
// A step begins with its stores: their pages are copied to buffers before anything writes to them.
// There is a fixed number of buffers; a block for which none gets free soon is dropped. Fetches
// come after the stores before them, in order, so that what was stored is found. A fetch may write
// to its pages while steps run, because no step uses them before the fetch is reported to have
// ended; and it is begun by a step, so that all steps that used the pages before are done.
//
// Where writing fails, nothing more is written, and all that is there can still be read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "core/step.h"
#include "exec/executor.h"
#include "exec/kv_storage.h"
#include "kernels/device.h"
#include "tier/block_file.h"

namespace quire {

class KvOffloader {
 public:
  // Where a part of each page lies; `ops`: those that compute the steps there. All borrowed.
  struct Part {
    Device* device = nullptr;
    const KvStorage* storage = nullptr;
    OpStream* ops = nullptr;
  };

  // The first report says what the file has. The file's blocks are pages, part after part.
  // kResourceExhausted.
  static Result<std::unique_ptr<KvOffloader>> create(std::span<const Part> parts,
                                                     std::unique_ptr<BlockFile> file);
  ~KvOffloader();  // what is not written by now is not kept

  // Memory of the buffers for blocks of so many bytes.
  static std::uint64_t buffer_bytes_of(std::uint64_t block_bytes) {
    return block_bytes * (num_buffers(block_bytes) + 1);
  }

  // Before anything of the step computes, on the thread that drives the parts' ops.
  Status begin(const SchedulerOutput& step);

  // As Executor says; waits for what was to be stored before, too.
  std::int64_t keep(std::span<const BlockStore> blocks, Duration limit);

  // As Executor says; any thread.
  bool take_report(TierReport& report);
  void on_report(std::function<void()> tell);
  TierStats stats() const;

 private:
  struct Store {
    std::size_t buffer = 0;
    BlockName name{};
  };
  struct Fetch {
    FetchId id = 0;
    std::int64_t begin_ns = 0;  // of the steady clock
    std::vector<BlockFetch> blocks;
  };
  struct Keep {
    std::span<const BlockStore> blocks;
    std::int64_t until_ns = 0;  // of the steady clock
    std::promise<std::int64_t>* done = nullptr;
  };
  using Job = std::variant<Store, Fetch, Keep>;

  // A part, and the stream of the thread for it.
  struct OwnPart {
    Part part;
    std::unique_ptr<OpStream> ops;
  };

  KvOffloader(std::vector<OwnPart> parts, std::unique_ptr<BlockFile> file);

  static constexpr std::uint64_t num_buffers(std::uint64_t block_bytes) {
    constexpr std::uint64_t kBytes = std::uint64_t{64} << 20;
    constexpr std::uint64_t kLeast = 8;
    constexpr std::uint64_t kMost = 4096;
    const std::uint64_t fit = kBytes / block_bytes;
    return fit < kLeast ? kLeast : (fit > kMost ? kMost : fit);
  }
  std::span<std::byte> buffer(std::size_t index) {
    return std::span(memory_).subspan(index * file_->block_bytes(), file_->block_bytes());
  }
  // The thread's own buffer, for what it reads.
  std::span<std::byte> read_buffer() { return buffer(num_buffers(file_->block_bytes())); }
  // Until all that computes, or copies for a step, has come to its end.
  Status synchronize_steps();
  std::optional<std::size_t> take_buffer(std::chrono::steady_clock::time_point until);
  void drop(const BlockName& name);
  void hand_over(std::vector<Job>& jobs);
  void run();
  void do_job(const Store& store);
  void do_job(const Fetch& fetch);
  void do_job(const Keep& keep);
  Status keep_block(const BlockStore& block);
  bool fetch_block(const BlockFetch& block);
  void report_removed(const BlockName& name);
  void stop_stores(const Status& error);
  void tell();

  std::vector<OwnPart> parts_;
  std::unique_ptr<BlockFile> file_;  // the thread's alone, like the parts' own streams
  std::vector<std::byte> memory_;    // of the buffers

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable freed_;  // a buffer
  std::vector<std::size_t> free_buffers_;
  std::deque<Job> jobs_;
  TierReport report_;
  TierStats stats_;
  std::function<void()> tell_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
