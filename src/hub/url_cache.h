// Where models lie that no hub has: a folder for each address, with the files under their names and
// source.json, which says whose they are.
//
//   $XDG_CACHE_HOME/quire/models/<16 digits of the address's SHA-256>/<name>/
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

class UrlCache {
 public:
  struct File {
    std::string name;  // stays_below() the folder
    std::string etag;
    std::uint64_t size = 0;
  };
  struct Source {
    std::string address;
    std::string open;  // the file that is the model; empty: the folder is
    std::vector<File> files;
  };

  explicit UrlCache(std::filesystem::path root) : root_(std::move(root)) {}

  std::filesystem::path folder(std::string_view address) const;
  // What was fetched last, whole; nullopt where it is not.
  std::optional<Source> find(std::string_view address) const;
  Status write(const Source& source) const;
  // All of them, by address.
  Result<std::vector<Source>> list() const;

 private:
  std::filesystem::path root_;
};

}  // namespace quire
