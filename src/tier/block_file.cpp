#include "tier/block_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::uint64_t kMagic = 0x7265'6974'6572'6971;  // "qiretier"
constexpr std::uint64_t kVersion = 2;  // of this file, and of how blocks are laid (KvLayout)

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  BlockName identity{};
  std::uint64_t block_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 64 && std::has_unique_object_representations_v<Header>);

struct Entry {
  BlockName name{};
  std::uint64_t checksum = 0;  // of the block
  std::array<std::uint64_t, 2> reserved{};
  std::uint64_t own = 0;  // of all before it
};
static_assert(sizeof(Entry) == 64 && std::has_unique_object_representations_v<Entry>);

constexpr std::size_t kEntriesAtOnce = 4096;

std::uint64_t own_checksum(const Header& header) {
  return XXH3_64bits(&header, offsetof(Header, checksum));
}
std::uint64_t own_checksum(const Entry& entry, std::size_t place) {
  return XXH3_64bits_withSeed(&entry, offsetof(Entry, own), place + 1);
}
// Of a block of that name: another's bytes are none of it.
std::uint64_t block_checksum(const BlockName& name, std::span<const std::byte> block) {
  return XXH3_64bits_withSeed(block.data(), block.size(), name[0]);
}

std::uint64_t entry_offset(std::size_t place) { return sizeof(Header) + place * sizeof(Entry); }

Header header_of(const BlockFileOptions& options) {
  Header header{.identity = options.identity, .block_bytes = options.block_bytes};
  header.checksum = own_checksum(header);
  return header;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

std::uint64_t BlockFile::disk_bytes(std::uint64_t block_bytes, std::int64_t max_blocks) {
  return sizeof(Header) + static_cast<std::uint64_t>(max_blocks) * (block_bytes + sizeof(Entry));
}

BlockFile::BlockFile(const BlockFileOptions& options, OpenFile index, OpenFile blocks)
    : options_(options),
      index_(std::move(index)),
      blocks_(std::move(blocks)),
      entries_(static_cast<std::size_t>(options.max_blocks)) {}

Result<std::unique_ptr<BlockFile>> BlockFile::open(const BlockFileOptions& options) {
  if (options.block_bytes == 0 || options.max_blocks < 1) {
    return Status::invalid_argument("a tier has room for one block at least");
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (!error) {
    std::filesystem::permissions(options.folder, std::filesystem::perms::owner_all, error);
  }
  if (error) {
    return Status::io_error(
        fmt::format("{} cannot be made: {}", options.folder.string(), error.message()));
  }
  QUIRE_ASSIGN_OR_RETURN(OpenFile index, OpenFile::open(options.folder / "index"));
  QUIRE_RETURN_IF_ERROR(index.lock());
  QUIRE_ASSIGN_OR_RETURN(OpenFile blocks, OpenFile::open(options.folder / "blocks"));
  std::unique_ptr<BlockFile> file(new BlockFile(options, std::move(index), std::move(blocks)));
  QUIRE_RETURN_IF_ERROR(file->read_index());
  QUIRE_RETURN_IF_ERROR(file->index_.resize(entry_offset(file->entries_.size())));
  QUIRE_RETURN_IF_ERROR(file->blocks_.resize(file->offset(file->entries_.size())));
  return file;
}

// Blocks behind the end of a file that was cut off are found to be none when they are read.
Status BlockFile::read_index() {
  QUIRE_ASSIGN_OR_RETURN(const std::uint64_t size, index_.size());
  const Header expected = header_of(options_);
  Header header;
  if (size < sizeof(header)) return begin_anew();
  QUIRE_RETURN_IF_ERROR(index_.read(0, std::as_writable_bytes(std::span(&header, 1))));
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) return begin_anew();
  const std::size_t count =
      std::min<std::size_t>((size - sizeof(header)) / sizeof(Entry), entries_.size());
  std::vector<Entry> entries(std::min(count, kEntriesAtOnce));
  constexpr Entry kUnused{};
  for (std::size_t first = 0; first < count; first += entries.size()) {
    entries.resize(std::min(entries.size(), count - first));
    QUIRE_RETURN_IF_ERROR(
        index_.read(entry_offset(first), std::as_writable_bytes(std::span(entries))));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      if (std::memcmp(&entry, &kUnused, sizeof(entry)) == 0) continue;
      if (entry.own != own_checksum(entry, first + i) || places_.contains(entry.name)) {
        ++num_damaged_;
        continue;
      }
      take(first + i, entry.name, entry.checksum);
    }
  }
  const auto unused = std::ranges::find(entries_, false, &Place::used);
  if (unused != entries_.end()) turn_ = static_cast<std::size_t>(unused - entries_.begin());
  return {};
}

// What is there is of another model, another version or nobody.
Status BlockFile::begin_anew() {
  QUIRE_ASSIGN_OR_RETURN(const std::uint64_t size, index_.size());
  if (size > 0) ++num_damaged_;
  QUIRE_RETURN_IF_ERROR(index_.resize(0));
  return index_.write(0, bytes_of(header_of(options_)));
}

void BlockFile::take(std::size_t place, const BlockName& name, std::uint64_t checksum) {
  entries_[place] = {.name = name, .checksum = checksum, .used = true};
  places_.emplace(name, place);
}

void BlockFile::forget(std::size_t place) {
  places_.erase(entries_[place].name);
  entries_[place] = {};
}

std::size_t BlockFile::next_place() {
  while (true) {
    const std::size_t place = turn_;
    turn_ = (turn_ + 1) % entries_.size();
    if (!std::exchange(entries_[place].read, false)) return place;
  }
}

Status BlockFile::put(const BlockName& name, std::span<const std::byte> block,
                      std::optional<BlockName>& replaced) {
  replaced.reset();
  if (places_.contains(name)) return {};
  const std::size_t place = next_place();
  if (entries_[place].used) {
    replaced = entries_[place].name;
    forget(place);
  }
  QUIRE_RETURN_IF_ERROR(blocks_.write(offset(place), block));
  Entry entry{.name = name, .checksum = block_checksum(name, block)};
  entry.own = own_checksum(entry, place);
  QUIRE_RETURN_IF_ERROR(index_.write(entry_offset(place), bytes_of(entry)));
  take(place, name, entry.checksum);
  return {};
}

bool BlockFile::get(const BlockName& name, std::span<std::byte> block) {
  const auto found = places_.find(name);
  if (found == places_.end()) return false;
  const std::size_t place = found->second;
  if (blocks_.read(offset(place), block).ok() &&
      block_checksum(name, block) == entries_[place].checksum) {
    entries_[place].read = true;
    return true;
  }
  ++num_damaged_;
  forget(place);
  return false;
}

void BlockFile::read_ahead(const BlockName& name) const {
  const auto found = places_.find(name);
  if (found != places_.end()) blocks_.read_ahead(offset(found->second), options_.block_bytes);
}

std::vector<BlockName> BlockFile::names() const {
  std::vector<BlockName> names;
  names.reserve(places_.size());
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

}  // namespace quire
