// Checkpoints of the tests under another configuration.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/json.h"

namespace quire::test {

// A copy of a checkpoint's folder with some keys of config.json changed; gone with the test.
class ChangedCheckpoint {
 public:
  ChangedCheckpoint(const std::filesystem::path& from, const json::object& changes) {
    std::string pattern = (std::filesystem::temp_directory_path() / "family_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) return;
    path_ = pattern;
    for (const auto& file : std::filesystem::directory_iterator(from)) {
      std::filesystem::copy(file.path(), path_ / file.path().filename());
    }
    auto read = read_json_file(from / "config.json", 1U << 24);
    if (!read.ok()) return;
    json::object config = read->as_object();
    for (const auto& change : changes) config[change.key()] = change.value();
    std::ofstream(path_ / "config.json") << json::serialize(config);
  }
  ChangedCheckpoint(const ChangedCheckpoint&) = delete;
  ChangedCheckpoint& operator=(const ChangedCheckpoint&) = delete;
  ~ChangedCheckpoint() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace quire::test
