#include "apps/vllm_flags.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/serve_flags.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Parsed {
  Status status;
  std::vector<std::string> notes;
  std::string model;
  std::int64_t max_model_len = 0;
};

// A command with a few flags of its own, as `quire serve` has, and vLLM's.
class Command {
 public:
  Command() {
    app_.add_option("model", model_);
    app_.add_option("--max-model-len", max_model_len_);
  }

  Parsed parse(std::vector<std::string> arguments) {
    arguments = normalize_vllm_arguments(arguments);
    add_vllm_flags(app_, arguments, given_);
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app_.parse(reversed);
    Parsed parsed;
    parsed.status = check_vllm_flags(given_, parsed.notes);
    parsed.model = model_;
    parsed.max_model_len = max_model_len_;
    return parsed;
  }

 private:
  CLI::App app_;
  VllmFlags given_;
  std::string model_;
  std::int64_t max_model_len_ = 0;
};

Parsed parse(std::vector<std::string> arguments) { return Command().parse(std::move(arguments)); }

TEST(VllmFlags, TableIsWellFormed) {
  std::set<std::string_view> names;
  for (const VllmFlag& flag : vllm_flags()) {
    SCOPED_TRACE(flag.name);
    EXPECT_TRUE(flag.name.starts_with("--"));
    EXPECT_EQ(flag.name.find('_'), std::string_view::npos);
    EXPECT_TRUE(names.insert(flag.name).second) << "twice";
    if (!flag.short_name.empty()) {
      EXPECT_TRUE(flag.short_name.starts_with("-"));
      EXPECT_TRUE(names.insert(flag.short_name).second) << flag.short_name << " twice";
    }
    EXPECT_NE(flag.short_name, "-h");
    EXPECT_FALSE(flag.reason.empty());
    if (flag.takes == VllmFlag::Takes::kNothing) {
      EXPECT_THAT(flag.off, ::testing::AnyOf("true", "false"));
    }
  }
}

// A row of the table for a flag that the program has would be said to be missing in --help-vllm.
TEST(VllmFlags, NoneOfThemIsOneOfTheProgramsOwn) {
  CLI::App app("serve");
  ServeFlags flags;
  add_serve_flags(app, flags);
  ASSERT_NE(app.get_option_no_throw("--chat-template"), nullptr);
  for (const VllmFlag& flag : vllm_flags()) {
    EXPECT_EQ(app.get_option_no_throw(std::string(flag.name)), nullptr) << flag.name;
  }
}

TEST(VllmFlags, EveryFlagIsAnsweredByName) {
  for (const VllmFlag& flag : vllm_flags()) {
    if (!flag.instead.empty()) continue;  // FlagsThatQuireNamesOtherwise
    SCOPED_TRACE(flag.name);
    const std::string name(flag.name);
    std::vector<std::string> arguments = {"m", name};
    if (flag.takes != VllmFlag::Takes::kNothing) {
      arguments.emplace_back("something-else");
    } else if (flag.off == "true") {
      arguments[1] = "--no-" + name.substr(2);
    }
    const Parsed parsed = parse(arguments);
    EXPECT_EQ(parsed.model, "m");
    if (flag.answer == VllmFlag::Answer::kRefused) {
      EXPECT_EQ(parsed.status.code(), StatusCode::kUnimplemented);
      EXPECT_THAT(parsed.status.message(), HasSubstr(name));
      EXPECT_THAT(parsed.status.message(), HasSubstr(std::string(flag.reason)));
    } else {
      EXPECT_TRUE(parsed.status.ok()) << parsed.status.to_string();
      ASSERT_EQ(parsed.notes.size(), 1U);
      EXPECT_THAT(parsed.notes[0], HasSubstr(name + " has no effect"));
    }
  }
}

TEST(VllmFlags, ValuesThatAskForNothingAreFine) {
  for (const VllmFlag& flag : vllm_flags()) {
    SCOPED_TRACE(flag.name);
    const std::string name(flag.name);
    std::vector<std::vector<std::string>> lines;
    if (flag.takes == VllmFlag::Takes::kNothing) {
      lines = {{flag.off == "true" ? name : "--no-" + name.substr(2)},
               {name + "=" + std::string(flag.off)}};
    } else {
      lines = {{name, "None"}};
      std::string_view off = flag.off;
      while (!off.empty()) {
        const std::size_t bar = std::min(off.find('|'), off.size());
        lines.push_back({name, std::string(off.substr(0, bar))});
        off.remove_prefix(std::min(bar + 1, off.size()));
      }
    }
    for (const auto& line : lines) {
      const Parsed parsed = parse(line);
      EXPECT_TRUE(parsed.status.ok()) << parsed.status.to_string();
      EXPECT_THAT(parsed.notes, IsEmpty()) << line.back();
    }
  }
}

TEST(VllmFlags, NumbersAndJsonCompareByMeaning) {
  EXPECT_TRUE(parse({"--swap-space", "0.0", "--tensor-parallel-size", "01"}).status.ok());
  EXPECT_TRUE(parse({"--allowed-methods", "[ \"*\" ]", "--hf-overrides", "{ }"}).status.ok());
  EXPECT_FALSE(parse({"--allowed-methods", "[\"GET\"]"}).status.ok());
}

TEST(VllmFlags, ShortNamesAndUnderscores) {
  EXPECT_THAT(
      normalize_vllm_arguments({"m", "-tp", "2", "-pp=1", "-q", "awq", "-O3", "-O.level=3",
                                "--max_model_len=8k", "--eplb_config.window", "a_b", "-1", "-",
                                "--", "-tp", "--a_b"}),
      ElementsAre("m", "--tensor-parallel-size", "2", "--pipeline-parallel-size=1",
                  "--quantization", "awq", "-O3", "--compilation-config=3", "--max-model-len=8k",
                  "--eplb-config", "a_b", "-1", "-", "--", "-tp", "--a_b"));
  const Parsed two = parse({"-tp", "2"});
  EXPECT_THAT(two.status.message(), HasSubstr("--tensor-parallel-size 2"));
  EXPECT_TRUE(parse({"-tp", "1", "-pp=1"}).status.ok());
  EXPECT_THAT(parse({"-O3"}).notes, ElementsAre(HasSubstr("--compilation-config")));
}

TEST(VllmFlags, ListsInJson) {
  EXPECT_THAT(normalize_vllm_arguments({"--allowed-origins", "[\"a, b\", \"c\"]", "--x=[\"*\"]",
                                        "--y", "[1]", "--z=[]", "--allowed-methods", "[\"*\"]"}),
              ElementsAre("--allowed-origins", "a, b", "--allowed-origins", "c", "--x", "*", "--y",
                          "[1]", "--z=[]", "--allowed-methods", "[\"*\"]"));
}

TEST(VllmFlags, FlagsThatQuireNamesOtherwise) {
  EXPECT_THAT(normalize_vllm_arguments({"--disable-log-requests", "--enable_log_requests"}),
              ElementsAre("--no-log-requests", "--log-requests"));
  EXPECT_THAT(normalize_vllm_arguments({"--swap-space", "16", "--swap_space=8.5", "--swap-space=4",
                                        "--swap-space", "0"}),
              ElementsAre("--kv-offloading-size", "16", "--kv-offloading-size=8.5",
                          "--swap-space=4", "--swap-space", "0"));
}

TEST(VllmFlags, AFieldOfThePoolerConfig) {
  EXPECT_THAT(normalize_vllm_arguments({"--pooler_config.pooling_type", "MEAN",
                                        "--override-pooler-config.pooling_type=CLS"}),
              ElementsAre("--pooling-type", "MEAN", "--pooling-type=CLS"));
}

TEST(VllmFlags, OwnFlagsWin) {
  CLI::App app;
  bool own = false;
  app.add_flag("--disable-log-stats", own);
  std::string format;
  app.add_option("--tool-call-parser", format);
  VllmFlags given;
  add_vllm_flags(app, std::vector<std::string>{"--disable-log-stats", "--tool-call-parser", "x"},
                 given);
  app.parse("--disable-log-stats --tool-call-parser x", false);
  EXPECT_TRUE(own);
  EXPECT_EQ(format, "x");
  EXPECT_TRUE(given.values.empty());
}

TEST(VllmFlags, ListsDoNotSwallowFlags) {
  const Parsed parsed =
      parse({"m", "--cudagraph-capture-sizes", "1", "2", "4", "--max_model_len", "256"});
  EXPECT_TRUE(parsed.status.ok());
  EXPECT_EQ(parsed.model, "m");
  EXPECT_EQ(parsed.max_model_len, 256);
}

TEST(VllmFlags, HelpStaysHelpAndShowsNoneOfThem) {
  CLI::App app("serve");
  VllmFlags given;
  add_vllm_flags(app, {}, given);
  EXPECT_THROW(app.parse("-h", false), CLI::CallForHelp);
  EXPECT_THAT(app.help(), ::testing::Not(HasSubstr("--enforce-eager")));
  EXPECT_THAT(app.help(), HasSubstr("--help-vllm"));
}

TEST(VllmFlags, HelpListsThem) {
  CLI::App app("serve");
  VllmFlags given;
  add_vllm_flags(app, {}, given);
  ::testing::internal::CaptureStdout();
  EXPECT_THROW(app.parse("--help-vllm", false), CLI::Success);
  const std::string text = ::testing::internal::GetCapturedStdout();
  for (const VllmFlag& flag : vllm_flags()) EXPECT_THAT(text, HasSubstr(std::string(flag.name)));
}

TEST(VllmFlags, SecretsAreNotShown) {
  const Parsed parsed = parse({"--hf-token", "hf_secret"});
  EXPECT_THAT(parsed.notes, ElementsAre(::testing::Not(HasSubstr("hf_secret"))));
}

}  // namespace
}  // namespace quire
