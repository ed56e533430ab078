// Broken templates: every prefix of each, and random damage. Whatever happens, it is an error or a
// text, soon. CHAT_TEMPLATE_SEEDS sets the number of damaged variants (the default is quick).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> all_templates() {
  std::vector<std::string> out;
  for (const fs::path& folder : {fs::path(QUIRE_SOURCE_DIR) / "tests/data/chat_template",
                                 fs::path(QUIRE_SOURCE_DIR) / "../shared/data/chat_templates"}) {
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".jinja") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return out;
}

ChatTemplateInput small_input() {
  ChatTemplateInput input;
  input.messages =
      json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "hé"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "123456789", "type": "function",
       "function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]},
      {"role": "tool", "tool_call_id": "123456789", "content": "ok"}])")
          .as_array();
  input.tools = json::parse(
      R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters":
       {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}}}])");
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.add_generation_prompt = true;
  input.local_time.tm_mday = 1;
  input.limits.max_steps = 200'000;
  input.limits.max_bytes = 16 << 20;
  return input;
}

// Parses and, where that works, renders; whether both worked.
bool try_template(const std::string& source, const ChatTemplateInput& input) {
  const auto parsed = ChatTemplate::parse(source, "t");
  if (!parsed.ok()) {
    EXPECT_FALSE(parsed.status().message().empty());
    EXPECT_NE(parsed.status().code(), StatusCode::kInternal) << parsed.status().message();
    return false;
  }
  const auto rendered = parsed->render(input);
  if (!rendered.ok()) {
    EXPECT_NE(rendered.status().code(), StatusCode::kInternal) << rendered.status().message();
  }
  return rendered.ok();
}

TEST(ChatTemplateRobustness, EveryPrefix) {
  const ChatTemplateInput input = small_input();
  int worked = 0;
  for (const std::string& source : all_templates()) {
    // Long templates are cut at every 13th byte: the whole stays below a few seconds.
    const std::size_t step = source.size() > 3000 ? 13 : 1;
    for (std::size_t size = 0; size < source.size(); size += step) {
      worked += try_template(source.substr(0, size), input) ? 1 : 0;
    }
  }
  EXPECT_GT(worked, 0);
}

TEST(ChatTemplateRobustness, RandomDamage) {
  const ChatTemplateInput input = small_input();
  const std::vector<std::string> templates = all_templates();
  ASSERT_FALSE(templates.empty());
  const char* wanted = std::getenv("CHAT_TEMPLATE_SEEDS");
  const int seeds = wanted == nullptr ? 4000 : std::atoi(wanted);
  const std::string alphabet = "{}%#-+()[]'\"\\|~.,:*/=<>! \nabeinorst019_\x80\xc3\xff";
  int worked = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    std::string source = templates[below(templates.size())];
    const std::size_t edits = 1 + below(4);
    for (std::size_t i = 0; i < edits && !source.empty(); ++i) {
      const std::size_t at = below(source.size());
      switch (below(5)) {
        case 0:
          source[at] = static_cast<char>(static_cast<unsigned char>(source[at]) ^ (1U << below(8)));
          break;
        case 1:
          source[at] = alphabet[below(alphabet.size())];
          break;
        case 2:
          source.erase(at, 1 + below(8));
          break;
        case 3:
          source.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
        default:
          source.insert(at, source.substr(below(source.size()), 1 + below(40)));
      }
    }
    worked += try_template(source, input) ? 1 : 0;
  }
  EXPECT_GT(worked, 0);
  EXPECT_LT(worked, seeds);
}

}  // namespace
}  // namespace quire
