#include "apps/key_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "apps/count_option.h"
#include "base/file.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxFileBytes = 16U << 20;
constexpr std::size_t kMaxKeyBytes = 1024;
constexpr std::string_view kBlanks = " \t\r";

struct KeySetting {
  std::string_view name;
  std::optional<std::int64_t> QuotaLimits::*limit;
};
constexpr std::array<KeySetting, 3> kKeySettings = {
    {{"rpm-limit", &QuotaLimits::requests_per_minute},
     {"tpm-limit", &QuotaLimits::tokens_per_minute},
     {"max-parallel-requests", &QuotaLimits::parallel_requests}}};

// Its first word, which is removed.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

// What is wrong with it, or nothing.
std::string set_limit(std::string_view word, QuotaLimits& limits) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const auto setting = std::ranges::find(kKeySettings, word.substr(0, equals), &KeySetting::name);
  if (setting == kKeySettings.end() || equals == word.size()) {
    return "expected rpm-limit=N, tpm-limit=N or max-parallel-requests=N after the key";
  }
  const std::string_view value = word.substr(equals + 1);
  if (value == "none") {
    (limits.*setting->limit).reset();
    return {};
  }
  const auto count = parse_count(value);
  if (!count.ok() || *count < 1 || *count > kMaxQuota) {
    return fmt::format("{}: expected a count of 1 to {}, or none", setting->name, kMaxQuota);
  }
  limits.*setting->limit = *count;
  return {};
}

std::string check_key(std::string_view key) {
  const bool plain = std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; });
  if (plain && key.size() <= kMaxKeyBytes) return {};
  return fmt::format("expected a key of at most {} printable ASCII characters", kMaxKeyBytes);
}

}  // namespace

Result<std::vector<KeyLimits>> parse_key_file(std::string_view text, std::string_view name,
                                              const QuotaLimits& defaults) {
  std::vector<KeyLimits> keys;
  std::unordered_map<std::string_view, int> lines;
  for (int line_number = 1; !text.empty(); ++line_number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view key = next_word(line);
    if (key.empty() || key.starts_with('#')) continue;
    KeyLimits& added = keys.emplace_back(KeyLimits{std::string(key), defaults});
    std::string wrong = check_key(key);
    const auto [first, is_new] = lines.emplace(key, line_number);
    if (!is_new) wrong = fmt::format("the key is that of line {}", first->second);
    for (auto word = next_word(line); wrong.empty() && !word.empty(); word = next_word(line)) {
      wrong = set_limit(word, added.limits);
    }
    if (wrong.empty()) continue;
    return Status::invalid_argument(
        fmt::format("--api-key-file {}, line {}: {}", printable(name), line_number, wrong),
        "write a key a line, and its own limits after it: KEY rpm-limit=60 tpm-limit=100k");
  }
  if (!keys.empty()) return keys;
  return Status::invalid_argument(
      fmt::format("--api-key-file {}: there is no key in it", printable(name)),
      "write at least one, or leave the flag out: then the server needs none");
}

Result<std::vector<KeyLimits>> read_key_file(const std::string& path, const QuotaLimits& defaults) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_key_file(text, path, defaults);
}

}  // namespace quire
