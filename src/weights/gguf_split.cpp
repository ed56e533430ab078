#include "weights/gguf_split.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace quire {
namespace {

// "-00001-of-00009.gguf" behind the name of the model.
constexpr std::size_t kPartDigits = 5;
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kExtension = ".gguf";
constexpr std::size_t kSuffix = 1 + kPartDigits + kOf.size() + kPartDigits + kExtension.size();

std::optional<int> part_digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

Result<GgufPart> read_gguf_part(const GgufMetadata& metadata, const std::string& file) {
  QUIRE_ASSIGN_OR_RETURN(const auto count, metadata.find_int("split.count"));
  if (count.value_or(1) <= 1) return GgufPart{};
  QUIRE_ASSIGN_OR_RETURN(const auto index, metadata.find_int("split.no"));
  if (*count > kGgufMaxParts || !index || *index < 0 || *index >= *count) {
    return Status::bad_model(
        fmt::format("{}: split.no = {} of split.count = {}: expected a part from 0 on, of at most "
                    "{} parts",
                    file, index ? std::to_string(*index) : "absent", *count, kGgufMaxParts),
        "fetch or split the model again");
  }
  return GgufPart{static_cast<int>(*index) + 1, static_cast<int>(*count)};
}

std::optional<GgufPart> gguf_part_of_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name.size() <= kSuffix) return std::nullopt;
  const std::string_view suffix = std::string_view(name).substr(name.size() - kSuffix);
  if (suffix[0] != '-' || suffix.substr(1 + kPartDigits, kOf.size()) != kOf ||
      !suffix.ends_with(kExtension)) {
    return std::nullopt;
  }
  const auto number = part_digits(suffix.substr(1, kPartDigits));
  const auto count = part_digits(suffix.substr(1 + kPartDigits + kOf.size(), kPartDigits));
  if (!number || !count || *number > *count) return std::nullopt;
  return GgufPart{*number, *count};
}

std::filesystem::path other_gguf_part(const std::filesystem::path& path, int number) {
  std::string name = path.filename().string();
  name.replace(name.size() - kSuffix + 1, kPartDigits, fmt::format("{:05}", number));
  return path.parent_path() / name;
}

}  // namespace quire
