// Room on the disk that is kept for the time when there is none: what frees room has to be written,
// too.
#pragma once

#include <cstdint>
#include <filesystem>

namespace quire {

class DiskReserve {
 public:
  static constexpr std::int64_t kBytes = 4 << 20;
  // What one release() gives: more than a transaction of a deletion writes.
  static constexpr std::int64_t kShareBytes = 256 << 10;

  // Takes the room, in a file at `path`, or finds it there from before. Without room for it there
  // is no reserve until refill() finds some.
  explicit DiskReserve(std::filesystem::path path);

  // Gives a share of the room to whoever writes next, unless less than `keep` bytes were left then.
  // False: there is none to give.
  bool release(std::int64_t keep) const;
  // Takes all of it again, if there is room.
  void refill() const;

 private:
  std::filesystem::path path_;
};

}  // namespace quire
