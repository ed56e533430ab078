#include "engine/event_log/event_log.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/exhaustion.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "engine/event_log/frame.h"
#include "engine/event_log/records.h"
#include "engine/event_log/segments.h"
#include "engine/event_log/snapshot_codec.h"

namespace quire {
namespace {

constexpr std::size_t kWakeBytes = 256 << 10;  // buffered: the writer does not wait for more
constexpr std::size_t kSpareBuffers = 2;
constexpr std::uint64_t kMaxFrameBytes = std::uint64_t{1} << 31;

std::int64_t unix_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

Result<std::unique_ptr<EventLog>> EventLog::open(EventLogOptions options) {
  if (options.segment_bytes < 1 || options.max_segments < 1 || options.max_buffer_bytes < 1) {
    return Status::invalid_argument("an event log needs at least one segment of one byte");
  }
  if (!options.base.has_filename()) {
    return Status::invalid_argument(
        fmt::format("--event-log {}: not the name of a file", options.base.string()));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto segments, find_segments(options.base));
  const std::uint64_t number = segments.empty() ? 1 : segments.back().number + 1;
  QUIRE_ASSIGN_OR_RETURN(SegmentWriter segment,
                         SegmentWriter::create(segment_path(options.base, number)));
  const std::uint64_t run_id =
      random_bits(static_cast<std::uint64_t>(unix_now()), static_cast<std::uint64_t>(::getpid()));
  return or_status([&]() -> Result<std::unique_ptr<EventLog>> {
    return std::unique_ptr<EventLog>(
        new EventLog(std::move(options), run_id, number, std::move(segment)));
  });
}

EventLog::EventLog(EventLogOptions options, std::uint64_t run_id, std::uint64_t number,
                   SegmentWriter segment)
    : options_(std::move(options)), run_id_(run_id), segment_(std::move(segment)), number_(number) {
  spare_.reserve(kSpareBuffers);
  thread_ = new_thread("quire-log", [this] { run(); });
}

EventLog::~EventLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  if (num_lost_ + num_dropped_ > 0) {
    log_warning("the event log lost the last {} records", num_lost_ + num_dropped_);
  }
}

void EventLog::between_steps(const Scheduler& scheduler, Instant now) {
  if (recording_ && !wants_snapshot_.load(std::memory_order_relaxed)) return;
  if (const std::int64_t retry_at = retry_at_; retry_at != 0 && steady_now_ns() < retry_at) return;
  if (!recording_) {
    const std::lock_guard lock(mutex_);
    if (!pieces_.empty()) return;  // the writer is behind
  }
  auto snapshot = scheduler.snapshot();
  if (!snapshot.ok()) return;
  auto taken = std::make_unique<const SchedulerSnapshot>(std::move(*snapshot));
  // Before the writer can see the snapshot, and fail again.
  wants_snapshot_ = false;
  retry_at_ = 0;
  {
    const std::lock_guard lock(mutex_);
    Piece& piece = new_piece();
    piece.snapshot = std::move(taken);
    piece.time = now;
    piece.num_lost = num_lost_;
  }
  wake_.notify_one();
  num_lost_ = 0;
  previous_ = now;
  recording_ = true;
}

void EventLog::added(const AddRequest& request, Instant now, const Status& status) {
  encode_added(request, status.code(), since_previous(now), scratch_);
  append_scratch();
}

void EventLog::aborted(RequestId request_id, Instant now, bool found) {
  encode_aborted(request_id, found, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::paced(const StepPace& pace, Instant now) {
  encode_paced(pace, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::proposed(RequestId request_id, DraftTreeView drafts, Instant now) {
  encode_drafts(request_id, drafts, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::prefix_cache_reset(Instant now) {
  encode_prefix_cache_reset(since_previous(now), scratch_);
  append_scratch();
}

void EventLog::unpinned(PinId pin_id, Instant now, bool found) {
  encode_unpinned(pin_id, found, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::scheduled(const SchedulerOutput& plan, Instant now) {
  encode_plan(plan, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::tier_reported(const TierReport& report, Instant now) {
  encode_tier_report(report, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::updated(const ModelRunnerOutput& result, Instant now) {
  encode_result(result, since_previous(now), scratch_);
  append_scratch();
}

void EventLog::ended(const Status& reason, Instant now) {
  encode_ended(reason, since_previous(now), scratch_);
  append_scratch();
}

// A record begins: the rest of one that there was no memory for is dropped.
Duration EventLog::since_previous(Instant now) {
  scratch_.clear();
  return now - std::exchange(previous_, now);
}

// The record that was encoded into scratch_ goes to the buffer, or is lost.
void EventLog::append_scratch() {
  if (retry_at_.load(std::memory_order_relaxed) != 0) recording_ = false;
  bool first = false;
  if (recording_) {
    const std::lock_guard lock(mutex_);
    if (buffered_bytes_ + scratch_.size() > options_.max_buffer_bytes) {
      recording_ = false;
    } else {
      first = pieces_.empty();
      Piece& piece = first ? new_piece() : pieces_.back();
      piece.records.insert(piece.records.end(), scratch_.begin(), scratch_.end());
      ++piece.num_records;
      const bool was_small = buffered_bytes_ < kWakeBytes;
      buffered_bytes_ += scratch_.size();
      first = first || (was_small && buffered_bytes_ >= kWakeBytes);
    }
  }
  if (!recording_) ++num_lost_;
  if (first) wake_.notify_one();
  scratch_.clear();
}

// With mutex_ locked.
EventLog::Piece& EventLog::new_piece() {
  Piece& piece = pieces_.emplace_back();
  if (!spare_.empty()) {
    piece.records = std::move(spare_.back());
    spare_.pop_back();
  }
  return piece;
}

EventLogStats EventLog::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void EventLog::run() {
  std::vector<Piece> pieces;
  while (true) {
    std::unique_lock lock(mutex_);
    for (Piece& piece : pieces) {
      piece.records.clear();
      if (spare_.size() < kSpareBuffers) spare_.push_back(std::move(piece.records));
    }
    pieces.clear();
    wake_.wait(lock, [&] { return stopping_ || !pieces_.empty(); });
    wake_.wait_for(lock, options_.max_delay,
                   [&] { return stopping_ || buffered_bytes_ >= kWakeBytes; });
    pieces.swap(pieces_);
    buffered_bytes_ = 0;
    const bool last = stopping_ && pieces.empty();
    lock.unlock();
    if (last) break;
    for (Piece& piece : pieces) {
      write(piece);
      piece.snapshot.reset();  // it may be large: not while locked
    }
  }
  // Where no engine ever ran there is nothing to keep.
  if (segment_.is_open() && segment_.size() == 0) segment_.discard();
}

void EventLog::write(const Piece& piece) {
  try {
    write_piece(piece);
  } catch (const std::bad_alloc&) {
    until_memory([&] { fail(out_of_memory(), piece); });
  }
}

void EventLog::write_piece(const Piece& piece) {
  if (piece.snapshot != nullptr) {
    if (const Status status = start_segment(piece); !status.ok()) {
      num_dropped_ += piece.num_lost;
      return fail(status, piece);
    }
  }
  if (!segment_.is_open()) {
    num_dropped_ += piece.num_records;
    return;
  }
  if (piece.records.empty()) return;
  if (const Status status = write_records(piece); !status.ok()) return fail(status, piece);
  retry_ = std::chrono::milliseconds(0);
  record_bytes_ += piece.records.size();
  if (record_bytes_ >= options_.segment_bytes && !asked_) wants_snapshot_ = asked_ = true;
}

Status EventLog::start_segment(const Piece& piece) {
  const std::uint64_t num_lost = piece.num_lost + num_dropped_;
  if (segment_.size() > 0) segment_.close();
  QUIRE_RETURN_IF_ERROR(remove_old_segments());
  if (!segment_.is_open()) {
    QUIRE_ASSIGN_OR_RETURN(segment_,
                           SegmentWriter::create(segment_path(options_.base, number_ + 1)));
    ++number_;
  }
  if (num_lost > 0) {
    log_warning("the event log lost {} records before {}", num_lost, segment_.path().string());
  }
  record_bytes_ = 0;
  asked_ = false;
  frame_ = segment_start();
  append_header_frame({.run_id = run_id_,
                       .number = number_,
                       .num_lost = num_lost,
                       .created_unix_ns = unix_now(),
                       .time = piece.time},
                      frame_);
  std::vector<std::uint8_t> snapshot;
  encode_snapshot(*piece.snapshot, snapshot);
  if (snapshot.size() > kMaxFrameBytes) {
    return Status::resource_exhausted("a snapshot is too large for an event log");
  }
  append_frame(FrameKind::kSnapshot, snapshot, frame_);
  QUIRE_RETURN_IF_ERROR(segment_.append(frame_));
  num_dropped_ = 0;
  segment_lost_ = num_lost;
  const std::lock_guard lock(mutex_);
  stats_.num_lost += num_lost;
  ++stats_.num_segments;
  stats_.num_bytes += frame_.size();
  stats_.snapshot_bytes = snapshot.size();
  return {};
}

Status EventLog::write_records(const Piece& piece) {
  frame_.clear();
  append_frame(FrameKind::kRecords, piece.records, frame_);
  QUIRE_RETURN_IF_ERROR(segment_.append(frame_));
  const std::lock_guard lock(mutex_);
  stats_.num_records += piece.num_records;
  stats_.num_bytes += frame_.size();
  return {};
}

// So that there are max_segments with the one that begins.
Status EventLog::remove_old_segments() {
  QUIRE_ASSIGN_OR_RETURN(auto segments, find_segments(options_.base));
  if (segment_.is_open()) {
    std::erase_if(segments, [&](const SegmentFile& file) { return file.number == number_; });
  }
  const std::int64_t num_surplus = std::ssize(segments) + 1 - options_.max_segments;
  for (std::int64_t i = 0; i < num_surplus; ++i) {
    std::error_code error;
    std::filesystem::remove(segments[static_cast<std::size_t>(i)].path, error);
    if (error) {
      return Status::io_error(fmt::format("{} cannot be removed: {}",
                                          segments[static_cast<std::size_t>(i)].path.string(),
                                          error.message()));
    }
  }
  return {};
}

// A segment without a record is of no use; its number is used again.
void EventLog::fail(const Status& status, const Piece& piece) {
  const auto retry =
      retry_.count() == 0 ? options_.first_retry : std::min(2 * retry_, options_.longest_retry);
  log_warning("{}; nothing is recorded for at least {} ms, serving goes on", status.to_string(),
              retry.count());
  retry_ = retry;
  num_dropped_ += piece.num_records;
  if (segment_.is_open() && record_bytes_ == 0) {
    if (segment_.size() > 0) {  // what its header tells goes with it: the next one has to
      num_dropped_ += segment_lost_;
      const std::lock_guard lock(mutex_);
      stats_.num_lost -= segment_lost_;
    }
    segment_.discard();
    --number_;
  }
  segment_.close();
  retry_at_ = steady_now_ns() + std::chrono::nanoseconds(retry_).count();
}

}  // namespace quire
