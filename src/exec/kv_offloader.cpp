#include "exec/kv_offloader.h"

#include <utility>

#include "base/exhaustion.h"
#include "base/log.h"
#include "base/thread.h"

namespace quire {
namespace {

// Blocks that the system is told of before they are read, so that the disk always has some to read.
constexpr std::size_t kReadAhead = 32;

// How long a step waits for buffers in all. A fetch can push out more at once than they hold, which
// the system's own cache of files mostly accepts within this time.
constexpr std::chrono::milliseconds kLongestWait{100};

}  // namespace

Result<std::unique_ptr<KvOffloader>> KvOffloader::create(std::span<const Part> parts,
                                                         std::unique_ptr<BlockFile> file) {
  std::vector<OwnPart> own;
  for (const Part& part : parts) {
    // For copies alone: as small a stream as can be.
    QUIRE_ASSIGN_OR_RETURN(auto ops, part.device->make_stream(
                                         {.max_rows = 1, .vocab_size = 1, .max_sampled_rows = 1}));
    own.push_back({part, std::move(ops)});
  }
  return or_status([&]() -> Result<std::unique_ptr<KvOffloader>> {
    return std::unique_ptr<KvOffloader>(new KvOffloader(std::move(own), std::move(file)));
  });
}

KvOffloader::KvOffloader(std::vector<OwnPart> parts, std::unique_ptr<BlockFile> file)
    : parts_(std::move(parts)),
      file_(std::move(file)),
      memory_(buffer_bytes_of(file_->block_bytes())) {
  for (std::size_t i = 0; i < num_buffers(file_->block_bytes()); ++i) free_buffers_.push_back(i);
  for (const BlockName& name : file_->names()) report_.added.push_back(name[0]);
  stats_.blocks_damaged = file_->num_damaged();
  thread_ = new_thread("quire-kv-tier", [this] { run(); });
}

KvOffloader::~KvOffloader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Status KvOffloader::synchronize_steps() {
  for (const OwnPart& own : parts_) QUIRE_RETURN_IF_ERROR(own.part.ops->synchronize());
  return {};
}

Status KvOffloader::begin(const SchedulerOutput& step) {
  if (step.block_stores.empty() && step.block_fetches.empty()) return {};
  const auto until = std::chrono::steady_clock::now() + kLongestWait;
  std::vector<Job> jobs;
  bool dropped = false;
  for (const BlockStore& each : step.block_stores) {
    std::optional<std::size_t> place = take_buffer({});
    if (!place) {
      QUIRE_RETURN_IF_ERROR(synchronize_steps());
      hand_over(jobs);
      place = take_buffer(until);
    }
    if (!place) {
      drop(each.name);
      dropped = true;
      continue;
    }
    std::span<std::byte> to = buffer(*place);
    for (const OwnPart& own : parts_) {
      own.part.storage->read_page(*own.part.ops, each.block_id, to);
      to = to.subspan(own.part.storage->page_bytes());
    }
    jobs.emplace_back(Store{*place, each.name});
  }
  QUIRE_RETURN_IF_ERROR(synchronize_steps());
  for (const BlockFetch& each : step.block_fetches) {
    Fetch* last = jobs.empty() ? nullptr : std::get_if<Fetch>(&jobs.back());
    if (last == nullptr || last->id != each.fetch_id) {
      last = &std::get<Fetch>(jobs.emplace_back(Fetch{each.fetch_id, steady_now_ns(), {}}));
    }
    last->blocks.push_back(each);
  }
  hand_over(jobs);
  if (dropped) tell();
  return {};
}

void KvOffloader::hand_over(std::vector<Job>& jobs) {
  {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs) jobs_.push_back(std::move(job));
  }
  jobs.clear();
  wake_.notify_one();
}

std::int64_t KvOffloader::keep(std::span<const BlockStore> blocks, Duration limit) {
  std::promise<std::int64_t> done;
  {
    const std::lock_guard lock(mutex_);
    jobs_.emplace_back(Keep{blocks, steady_now_ns() + limit.count(), &done});
  }
  wake_.notify_one();
  return done.get_future().get();
}

// Nullopt: none is free by then.
std::optional<std::size_t> KvOffloader::take_buffer(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  if (!freed_.wait_until(lock, until, [this] { return !free_buffers_.empty(); })) {
    return std::nullopt;
  }
  const std::size_t taken = free_buffers_.back();
  free_buffers_.pop_back();
  return taken;
}

void KvOffloader::drop(const BlockName& name) {
  const std::lock_guard lock(mutex_);
  ++stats_.blocks_dropped;
  report_.removed.push_back(name[0]);
}

bool KvOffloader::take_report(TierReport& report) {
  report = {};
  const std::lock_guard lock(mutex_);
  std::swap(report, report_);
  return !report.empty();
}

void KvOffloader::on_report(std::function<void()> tell) {
  const std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
}

TierStats KvOffloader::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void KvOffloader::tell() {
  const std::lock_guard lock(mutex_);
  if (tell_) tell_();
}

void KvOffloader::run() {
  while (true) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::visit([this](const auto& each) { do_job(each); }, job);
  }
}

void KvOffloader::do_job(const Store& store) {
  std::optional<BlockName> replaced;
  const bool failed = stats().failed != 0;
  const Status status = failed ? Status() : file_->put(store.name, buffer(store.buffer), replaced);
  const bool written = !failed && status.ok();
  if (replaced) report_removed(*replaced);
  if (!written) drop(store.name);
  {
    const std::lock_guard lock(mutex_);
    free_buffers_.push_back(store.buffer);
    if (written) {
      ++stats_.blocks_written;
      stats_.bytes_written += static_cast<std::int64_t>(file_->block_bytes());
    }
  }
  freed_.notify_one();
  if (!status.ok()) stop_stores(status);
  if (replaced || !written) tell();
}

void KvOffloader::stop_stores(const Status& error) {
  log_warning("KV blocks are no longer offloaded: {}; those that were can still be read",
              error.message());
  const std::lock_guard lock(mutex_);
  stats_.failed = 1;
  report_.stores_end = true;
}

void KvOffloader::report_removed(const BlockName& name) {
  const std::lock_guard lock(mutex_);
  report_.removed.push_back(name[0]);
}

// What of it has not come is to be computed; the rest of it is of no use then.
void KvOffloader::do_job(const Fetch& fetch) {
  std::size_t num_blocks = 0;
  for (std::size_t i = 0; i < fetch.blocks.size() && i < kReadAhead; ++i) {
    file_->read_ahead(fetch.blocks[i].name);
  }
  for (const BlockFetch& block : fetch.blocks) {
    if (num_blocks + kReadAhead < fetch.blocks.size()) {
      file_->read_ahead(fetch.blocks[num_blocks + kReadAhead].name);
    }
    if (!fetch_block(block)) break;
    ++num_blocks;
  }
  {
    const std::lock_guard lock(mutex_);
    if (num_blocks < fetch.blocks.size()) {
      report_.removed.push_back(fetch.blocks[num_blocks].name[0]);
    }
    report_.fetched.push_back({fetch.id, static_cast<std::int32_t>(num_blocks),
                               Duration(steady_now_ns() - fetch.begin_ns)});
    stats_.blocks_read += static_cast<std::int64_t>(num_blocks);
    stats_.bytes_read += static_cast<std::int64_t>(num_blocks * file_->block_bytes());
    stats_.blocks_damaged = file_->num_damaged();
  }
  tell();
}

void KvOffloader::do_job(const Keep& keep) {
  std::int64_t num_kept = 0;
  for (const BlockStore& block : keep.blocks) {
    if (stats().failed != 0 || steady_now_ns() >= keep.until_ns) break;
    if (const Status status = keep_block(block); !status.ok()) {
      stop_stores(status);
      break;
    }
    ++num_kept;
  }
  keep.done->set_value(num_kept);
}

// No matter what of others it replaces: nobody asks for them any more.
Status KvOffloader::keep_block(const BlockStore& block) {
  std::span<std::byte> to = read_buffer();
  for (const OwnPart& own : parts_) {
    own.ops->begin_step();
    own.part.storage->read_page(*own.ops, block.block_id, to);
    QUIRE_RETURN_IF_ERROR(own.ops->synchronize());
    to = to.subspan(own.part.storage->page_bytes());
  }
  std::optional<BlockName> replaced;
  return file_->put(block.name, read_buffer(), replaced);
}

bool KvOffloader::fetch_block(const BlockFetch& block) {
  if (!file_->get(block.name, read_buffer())) return false;
  std::span<const std::byte> from = read_buffer();
  for (const OwnPart& own : parts_) {
    own.ops->begin_step();
    own.part.storage->write_page(*own.ops, block.block_id, from);
    if (!own.ops->synchronize().ok()) return false;
    from = from.subspan(own.part.storage->page_bytes());
  }
  return true;
}

}  // namespace quire
