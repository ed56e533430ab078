// Checkpoint files for tests, good and bad: builders that write whatever they are told.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weights/gguf_metadata.h"
#include "weights/temp_folder.h"

namespace quire::testing {

template <typename T>
std::string le(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class GgufBuilder {
 public:
  static std::string string(std::string_view text) {
    return le<std::uint64_t>(text.size()) + std::string(text);
  }

  // `value` as encoded.
  GgufBuilder& key(std::string_view name, std::uint32_t type, std::string_view value) {
    keys_ += string(name) + le(type) + std::string(value);
    ++key_count_;
    return *this;
  }
  GgufBuilder& key(std::string_view name, GgufType type, std::string_view value) {
    return key(name, static_cast<std::uint32_t>(type), value);
  }
  GgufBuilder& u32(std::string_view name, std::uint32_t value) {
    return key(name, GgufType::kU32, le(value));
  }
  GgufBuilder& text(std::string_view name, std::string_view value) {
    return key(name, GgufType::kString, string(value));
  }
  GgufBuilder& array(std::string_view name, GgufType type, std::uint64_t count,
                     std::string_view elements) {
    return key(name, GgufType::kArray,
               le(static_cast<std::uint32_t>(type)) + le(count) + std::string(elements));
  }

  // `dims` as in the file, innermost first; `type` is ggml's number.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                      std::uint32_t type, std::uint64_t offset) {
    tensors_ += string(name) + le(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) tensors_ += le(dim);
    tensors_ += le(type) + le(offset);
    ++tensor_count_;
    return *this;
  }

  GgufBuilder& version(std::uint32_t value) {
    version_ = value;
    return *this;
  }
  GgufBuilder& claim_keys(std::uint64_t count) {
    key_count_ = count;
    return *this;
  }
  GgufBuilder& claim_tensors(std::uint64_t count) {
    tensor_count_ = count;
    return *this;
  }

  // The file, with `data_bytes` bytes of tensors at the given alignment.
  std::string build(std::size_t data_bytes = 0, std::size_t alignment = 32) const {
    std::string file =
        "GGUF" + le(version_) + le(tensor_count_) + le(key_count_) + keys_ + tensors_;
    if (data_bytes > 0) {
      file.resize((file.size() + alignment - 1) / alignment * alignment + data_bytes, '\x01');
    }
    return file;
  }

 private:
  std::uint32_t version_ = 3;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::string keys_;
  std::string tensors_;
};

// A safetensors file of a JSON header and `data_bytes` bytes.
inline std::string safetensors_file(std::string_view header, std::size_t data_bytes) {
  return le<std::uint64_t>(header.size()) + std::string(header) + std::string(data_bytes, '\x01');
}

// Of the `round`-th of several damages to `file`: bytes overwritten, cut off, doubled or exchanged,
// mostly near the start, where the structure is. The same for the same arguments.
inline std::string damaged(const std::string& file, std::uint64_t round) {
  std::mt19937_64 random(round);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::string result = file;
  const std::size_t changes = 1 + below(4);
  for (std::size_t i = 0; i < changes && !result.empty(); ++i) {
    const std::size_t at = below(2) == 0 ? below(result.size()) : below(result.size() / 4 + 1);
    switch (below(6)) {
      case 0:
        result[at] = static_cast<char>(random());
        break;
      case 1:
        result[at] = static_cast<char>(result[at] ^ (1 << below(8)));
        break;
      case 2:  // an extreme number
        for (std::size_t j = at; j < std::min(at + 8, result.size()); ++j) {
          result[j] = below(4) == 0 ? '\x7f' : '\xff';
        }
        break;
      case 3:
        for (std::size_t j = at; j < std::min(at + 8, result.size()); ++j) result[j] = '\0';
        break;
      case 4:
        result.resize(at);
        break;
      default:
        result.insert(at, result.substr(below(result.size()), below(32)));
        break;
    }
  }
  return result;
}

// Expects an error whose text contains all of `parts`.
template <typename T>
void expect_error(const Result<T>& result, StatusCode code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(status_code_name(result.status().code()), status_code_name(code));
  for (const std::string& part : parts) {
    EXPECT_NE(result.status().to_string().find(part), std::string::npos)
        << "expected \"" << part << "\" in \"" << result.status().to_string() << '"';
  }
}

// Skips the test where a file outside the repository is absent, and fails in CI, which has them.
#define QUIRE_REQUIRE_FILE(path)                                            \
  if (!std::filesystem::exists(path)) {                                     \
    if (std::getenv("CI") != nullptr) FAIL() << "absent in CI: " << (path); \
    GTEST_SKIP() << "absent: " << (path);                                   \
  }

}  // namespace quire::testing
