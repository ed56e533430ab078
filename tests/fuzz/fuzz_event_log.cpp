// Any bytes as a segment of an event log, replayed: an error, a difference or an identical
// schedule, and a scheduler that keeps its laws throughout. A first byte of 0 takes the rest as the
// file; otherwise the rest is the content of its frames, whose checksums are then made right: the
// size of the snapshot (two bytes), the snapshot, the records.
//
// The corpus is written by engine_test:
//   QUIRE_CORPUS=tests/fuzz/corpus/event_log engine_test
//     --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_WriteCorpus'
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/scheduler.h"
#include "engine/event_log/frame.h"
#include "engine/event_log/reader.h"
#include "engine/event_log/replay.h"

namespace {

using Bytes = std::span<const std::uint8_t>;

// Small enough to be replayed thousands of times a second.
bool is_small(const quire::SchedulerConfig& config) {
  return config.num_blocks <= 4096 && config.block_size <= 64 && config.max_num_seqs <= 64 &&
         config.max_model_len <= 4096 && config.max_queued <= 1024;
}

void replay(Bytes file) {
  auto segment = quire::SegmentReader::open(file, "log");
  if (!segment.ok()) return;
  const auto begun = segment->begin();
  if (!begun.ok() || !*begun || !is_small(segment->snapshot().config)) return;
  quire::Replay replay;
  if (!replay.begin_segment(*segment).ok()) return;
  while (true) {
    const auto record = segment->next();
    if (!record.ok() || !*record || !replay.apply(**record).ok()) return;
    if (replay.difference()) return;
    if (!replay.scheduler()->check_invariants().ok()) std::abort();
  }
}

std::vector<std::uint8_t> framed(Bytes contents) {
  const std::size_t wanted = contents[0] + std::size_t{256} * contents[1];
  contents = contents.subspan(2);
  const Bytes snapshot = contents.first(std::min(wanted, contents.size()));
  std::vector<std::uint8_t> file = quire::segment_start();
  quire::append_header_frame({.run_id = 1, .number = 1}, file);
  quire::append_frame(quire::FrameKind::kSnapshot, snapshot, file);
  quire::append_frame(quire::FrameKind::kRecords, contents.subspan(snapshot.size()), file);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const Bytes bytes(data + 1, size - 1);
  if (data[0] == 0) {
    replay(bytes);
  } else {
    replay(framed(bytes));
  }
  return 0;
}
