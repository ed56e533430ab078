#include "support/failing_new.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <execinfo.h>
#include <mutex>
#include <new>
#include <thread>

namespace quire::test {
namespace {

enum class Mode { kOff, kRecord, kFail, kFailLarge, kFailThread };

constexpr int kMaxFrames = 48;
constexpr std::size_t kMaxStacks = 1 << 16;

std::atomic<Mode> mode = Mode::kOff;
std::atomic<StackHash> target = 0;
std::atomic<std::size_t> smallest = 0;  // of those that are large
std::atomic<bool> failed = false;
std::atomic<std::int64_t> num_live = 0;
std::mutex mutex;
std::array<StackHash, kMaxStacks> table;  // open addressing; 0: free
std::array<StackHash, kMaxStacks> in_order;
std::size_t num_stacks = 0;
std::atomic<std::thread::id> failing_thread;
thread_local bool is_exempt = false;
thread_local bool inside = false;  // backtrace() may allocate

StackHash hash_of_stack() {
  std::array<void*, kMaxFrames> frames{};
  const int count = ::backtrace(frames.data(), kMaxFrames);
  StackHash hash = 14695981039346656037ULL;
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)])) *
           1099511628211ULL;
    hash ^= hash >> 29;
  }
  return hash == 0 ? 1 : hash;
}

void record(StackHash hash) {
  const std::lock_guard lock(mutex);
  std::size_t slot = hash % kMaxStacks;
  while (table[slot] != 0 && table[slot] != hash) slot = (slot + 1) % kMaxStacks;
  if (table[slot] == hash || num_stacks + 1 == kMaxStacks) return;
  table[slot] = hash;
  in_order[num_stacks++] = hash;
}

bool is_to_fail(std::size_t size) {
  const Mode now = mode.load(std::memory_order_relaxed);
  if (now == Mode::kFailThread) {
    const bool fails = failing_thread.load() == std::this_thread::get_id();
    if (fails) failed = true;
    return fails;
  }
  if (now == Mode::kOff || is_exempt || inside) return false;
  if (now == Mode::kFailLarge) {
    if (size < smallest) return false;
    failed = true;
    return true;
  }
  inside = true;
  const StackHash hash = hash_of_stack();
  inside = false;
  if (now == Mode::kRecord) {
    record(hash);
    return false;
  }
  return hash == target && !failed.exchange(true);
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (is_to_fail(size)) throw std::bad_alloc();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  num_live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void free(void* memory) noexcept {
  if (memory != nullptr) num_live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void exempt_this_thread(bool exempt) { is_exempt = exempt; }

void start_recording() {
  std::array<void*, 1> first{};
  (void)::backtrace(first.data(), 1);  // loads the unwinder
  const std::lock_guard lock(mutex);
  table.fill(0);
  num_stacks = 0;
  mode = Mode::kRecord;
}

std::vector<StackHash> stop_recording() {
  mode = Mode::kOff;
  const std::lock_guard lock(mutex);
  return {in_order.begin(), in_order.begin() + static_cast<std::ptrdiff_t>(num_stacks)};
}

void fail_once(StackHash stack) {
  target = stack;
  failed = false;
  mode = Mode::kFail;
}

void fail_from(std::size_t bytes) {
  smallest = bytes;
  failed = false;
  mode = Mode::kFailLarge;
}

void fail_on_this_thread() {
  failing_thread = std::this_thread::get_id();
  failed = false;
  mode = Mode::kFailThread;
}

bool has_failed() { return failed; }

bool stop_failing() {
  mode = Mode::kOff;
  return failed;
}

std::int64_t num_live_allocations() { return num_live; }

}  // namespace quire::test

void* operator new(std::size_t size) {
  return quire::test::allocate(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size) {
  return quire::test::allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return quire::test::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return quire::test::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { quire::test::free(memory); }
void operator delete[](void* memory) noexcept { quire::test::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { quire::test::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { quire::test::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { quire::test::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { quire::test::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  quire::test::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  quire::test::free(memory);
}
