// KV blocks in files, found by their names (base/block_name.h), from one run to the next:
//
//   FOLDER/index    a header, then an entry of 64 bytes for each place of a block
//   FOLDER/blocks   the blocks, of equal bytes, place by place
//
// The header says what the blocks are of, in 256 bits: a file of anything else is begun anew. An
// entry has the name of its block and checksums of the block and of itself (XXH3, 64 bits,
// github.com/Cyan4973/xxHash), the entry's with the number of its place. A block is written before
// its entry, so that whatever a process that is killed, a full disk or a damaged file leaves
// behind, either both are as they were written, or a checksum fails: then the block is not there.
//
// A place is given to a new block in turn, but for blocks that were read since their last turn
// (second chance, Corbato 1968). Numbers are of this machine's byte order, which is in the header.
//
// Not thread-safe. Foreign bytes cost blocks, never more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/block_name.h"
#include "base/status.h"
#include "tier/open_file.h"

namespace quire {

struct BlockFileOptions {
  std::filesystem::path folder;  // made if it is not there
  BlockName identity{};          // of all that the bytes of a block depend on besides its name
  std::uint64_t block_bytes = 0;
  std::int64_t max_blocks = 0;
};

class BlockFile {
 public:
  // kIoError for a folder that cannot be made or written to, or a disk that has no room for all of
  // max_blocks; kUnavailable where another process uses it.
  static Result<std::unique_ptr<BlockFile>> open(const BlockFileOptions& options);

  // Bytes of memory for each block of max_blocks.
  static constexpr std::uint64_t kMemoryPerBlock = 128;
  // Bytes on the disk.
  static std::uint64_t disk_bytes(std::uint64_t block_bytes, std::int64_t max_blocks);

  // Keeps a block, of block_bytes, in place of another where there is no room: `replaced` gets
  // that one's name. No effect where it is there already. kIoError: it is not kept.
  Status put(const BlockName& name, std::span<const std::byte> block,
             std::optional<BlockName>& replaced);

  // Reads a block. False: it is not there, or was damaged and is there no more; `block` may then
  // be anything.
  bool get(const BlockName& name, std::span<std::byte> block);
  // It is read soon.
  void read_ahead(const BlockName& name) const;

  std::vector<BlockName> names() const;  // of all that are there
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t max_blocks() const { return options_.max_blocks; }
  std::uint64_t block_bytes() const { return options_.block_bytes; }
  // Blocks whose checksum failed, entries of the index that are none, and whole files that were
  // begun anew.
  std::int64_t num_damaged() const { return num_damaged_; }

 private:
  struct Place {
    BlockName name{};
    std::uint64_t checksum = 0;
    bool used = false;
    bool read = false;  // since its last turn
  };

  BlockFile(const BlockFileOptions& options, OpenFile index, OpenFile blocks);
  Status read_index();
  Status begin_anew();
  void take(std::size_t place, const BlockName& name, std::uint64_t checksum);
  std::size_t next_place();
  void forget(std::size_t place);
  std::uint64_t offset(std::size_t place) const {
    return static_cast<std::uint64_t>(place) * options_.block_bytes;
  }

  BlockFileOptions options_;
  OpenFile index_;
  OpenFile blocks_;
  std::vector<Place> entries_;  // of each place
  std::unordered_map<BlockName, std::size_t, BlockNameHash> places_;
  std::size_t turn_ = 0;
  std::int64_t num_damaged_ = 0;
};

}  // namespace quire
