#include "serve/protocols/sampling_fields.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace quire {
namespace {

std::string_view kind_text(SamplingFieldKind kind) {
  switch (kind) {
    case SamplingFieldKind::kInteger:
      return "integer";
    case SamplingFieldKind::kNumber:
      return "number";
    case SamplingFieldKind::kBoolean:
      return "boolean";
    case SamplingFieldKind::kStrings:
      return "text or list of texts";
    case SamplingFieldKind::kTokenIds:
      return "list of token ids";
    case SamplingFieldKind::kBiases:
    case SamplingFieldKind::kStructuredOutputs:
      return "object";
    case SamplingFieldKind::kEarlyStopping:
      return "boolean or `\"never\"`";
  }
  return "";
}

std::string rule_text(const json::object& rules, std::string_view name) {
  const json::value* rule = rules.if_contains(name);
  return rule == nullptr ? "" : json::serialize(*rule);
}

// "[0, 1]", "> 0", or nothing.
std::string range_text(const json::object& rules) {
  const std::string least = rule_text(rules, "minimum");
  const std::string above = rule_text(rules, "exclusiveMinimum");
  const std::string most = rule_text(rules, "maximum");
  if (most.empty()) {
    return least.empty() ? (above.empty() ? "" : "> " + above) : ">= " + least;
  }
  return above.empty() ? fmt::format("[{}, {}]", least, most)
                       : fmt::format("({}, {}]", above, most);
}

// The table of docs/server.md says of each field what the code's table says.
TEST(SamplingFieldsDocs, TableIsThatOfTheCode) {
  const auto page = read_file(QUIRE_SOURCE_DIR "/docs/server.md", 1U << 20);
  ASSERT_TRUE(page.ok());
  std::string table = "| field | type | values | default | what |\n|---|---|---|---|---|\n";
  for (const SamplingField& field : sampling_fields()) {
    table +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name, kind_text(field.kind),
                    range_text(field.rules), rule_text(field.rules, "default"), field.description);
  }
  EXPECT_THAT(*page, testing::HasSubstr("\n" + table + "\n")) << "it should hold:\n" << table;
}

// What the engine fills in is no field of a request.
TEST(SamplingFieldsDocs, EnginesOwnParametersAreNoFields) {
  for (const SamplingField& field : sampling_fields()) EXPECT_NE(field.name, "bad_words_token_ids");
  EXPECT_EQ(sampling_fields().size() + 1, kNumSamplingParameters);
}

}  // namespace
}  // namespace quire
