// Gives memory back to the system that large requests have left behind in the allocator, which
// keeps what it was given for later: gigabytes after one large answer.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

// Before the program's other threads: blocks of some megabytes go back as soon as they are freed.
void return_large_blocks();

class MemoryReturn {
 public:
  // Looks at what the allocator has, and gives back what is free where that has grown. Takes
  // milliseconds where there is much. Call it every few seconds.
  void look();

 private:
  // Resident bytes that are not in use, at least, since it last gave back.
  std::optional<std::int64_t> least_idle_;
};

}  // namespace quire
