// Gives memory back to the system that large requests have left behind in the allocator, which
// keeps what it was given for later: gigabytes after one large answer.
#pragma once

#include <cstdint>

namespace quire {

// Before the program's other threads: blocks of some megabytes go back as soon as they are freed.
void return_large_blocks();

class MemoryReturn {
 public:
  // Looks at what the allocator holds, and gives back what is free where that has grown. Takes
  // milliseconds where there is much. Call it every few seconds.
  void look();

 private:
  std::uint64_t least_free_ = 0;      // bytes of the allocator, since it last gave back
  std::uint64_t least_resident_ = 0;  // of the program
};

}  // namespace quire
