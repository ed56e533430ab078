// A global operator new that records the call stacks that allocate, and lets one of them fail once,
// or all large allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::test {

using StackHash = std::uint64_t;

// Nothing happens to the allocations of a thread that is exempt: the test's own.
void exempt_this_thread(bool exempt);

// Records the call stacks of all allocations by threads that are not exempt, until stop_recording()
// gives them in the order in which they were first seen.
void start_recording();
std::vector<StackHash> stop_recording();

// The next allocation from that call stack, by a thread that is not exempt, throws std::bad_alloc.
void fail_once(StackHash stack);
// Every allocation of at least `bytes` by a thread that is not exempt throws std::bad_alloc.
void fail_from(std::size_t bytes);
// Every allocation by this thread throws std::bad_alloc, exempt or not; any thread may end it.
void fail_on_this_thread();
// Whether one of these has failed so far.
bool has_failed();
// Ends all of these; true where one has failed.
bool stop_failing();

// What operator new gave and operator delete has not got back, of all threads.
std::int64_t num_live_allocations();

}  // namespace quire::test
