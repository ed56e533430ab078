// `quire bench spec`: what guessing tokens gives on texts of several kinds, beside what theory says
// that it can.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/bench_spec/measure.h"
#include "apps/bench_spec/texts.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/progress.h"

namespace quire {
namespace {

struct SpecFlags {
  EngineArgs engine;
  SpecLoad load;
  std::vector<std::int64_t> lengths = {1, 2, 4, 8};
  bool json = false;
};

// A chat, where the model has a template for it.
Result<std::vector<TokenId>> prompt_of(const Engine& engine, const SpecText& text) {
  if (engine.chat_template().empty()) return engine.encode_text(text.message);
  Conversation conversation;
  conversation.messages.push_back(json::object{{"role", "user"}, {"content", text.message}});
  return engine.encode_chat(conversation);
}

// 1 / (1 - f + f c), for a share f of tokens that were guessed and rows that cost c: what there
// would be were no guess wrong.
std::optional<double> bound(const SpecOutcome& outcome, std::optional<double> cost_of_row) {
  if (!cost_of_row) return std::nullopt;
  const double share =
      static_cast<double>(outcome.num_accepted) / static_cast<double>(outcome.num_tokens);
  return 1 / (1 - share + share * *cost_of_row);
}

json::value to_json(std::optional<double> value) {
  return value ? json::value(*value) : json::value();
}

json::object to_json(const SpecOutcome& outcome, std::optional<double> cost_of_row) {
  json::array places;
  for (const std::int64_t count : outcome.accepted_at) places.push_back(count);
  return {{"drafts", spec_setting_name(outcome.setting)},
          {"tokens_per_s", outcome.tokens_per_s},
          {"speedup", outcome.speedup},
          {"speedup_p25", outcome.speedup_p25},
          {"speedup_p75", outcome.speedup_p75},
          {"told_speedup", to_json(outcome.told_speedup)},
          {"bound", to_json(bound(outcome, cost_of_row))},
          {"draft_seconds", outcome.draft_seconds},
          {"verify_seconds", outcome.verify_seconds},
          {"num_tokens", outcome.num_tokens},
          {"num_drafted_steps", outcome.num_drafted},
          {"num_draft_tokens", outcome.num_drafts},
          {"num_accepted_tokens", outcome.num_accepted},
          {"accepted_at", std::move(places)},
          {"block_efficiency", outcome.block_efficiency()},
          {"same_output", outcome.same_output}};
}

void print_outcome(const SpecText& text, const SpecOutcome& outcome,
                   std::optional<double> cost_of_row) {
  std::vector<std::string> places;
  for (const std::int64_t count : outcome.accepted_at) {
    if (places.size() == 6) break;
    places.push_back(fmt::format(
        "{:.2f}", static_cast<double>(count) / static_cast<double>(outcome.num_drafted)));
  }
  const auto ratio = [](std::optional<double> value) {
    return value ? fmt::format("{:.2f}", *value) : "-";
  };
  fmt::print(
      "{:<12}{:>8}{:>10.1f}{:>10.2f}{:>12}{:>8}{:>8}{:>9.2f}{:>9.2f}{:>9}{:>10}{:>8.2f}  {}{}\n",
      text.name, spec_setting_name(outcome.setting), outcome.tokens_per_s, outcome.speedup,
      fmt::format("{:.2f}-{:.2f}", outcome.speedup_p25, outcome.speedup_p75),
      ratio(outcome.told_speedup), ratio(bound(outcome, cost_of_row)), outcome.draft_seconds,
      outcome.verify_seconds, outcome.num_drafts, outcome.num_accepted, outcome.block_efficiency(),
      fmt::join(places, " "), outcome.same_output ? "" : "  ANOTHER OUTPUT");
}

Status run_spec(SpecFlags flags) {
  if (!flags.engine.speculation) {
    QUIRE_ASSIGN_OR_RETURN(flags.engine.speculation,
                           SpeculativeConfig::parse(R"({"method": "ngram", "prompt_lookup_min": 2,
                               "prompt_lookup_max": 5, "num_speculative_tokens": 8})"));
  }
  const std::int32_t most = flags.engine.speculation->num_speculative_tokens;
  std::vector<SpecSetting> settings = {std::nullopt};
  for (const std::int64_t length : flags.lengths) {
    if (length <= most) settings.emplace_back(static_cast<std::int32_t>(length));
  }
  flags.engine.max_num_seqs =
      std::max(flags.engine.max_num_seqs, static_cast<std::int32_t>(flags.load.concurrency));
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  RowClock clock;
  QUIRE_ASSIGN_OR_RETURN(
      const auto engine,
      start_engine(flags.engine, [&clock](const StepRecord& step) { clock.stepped(step); }));
  std::vector<std::vector<SpecOutcome>> all;
  ProgressBar bar("decoding", "turns");
  const auto num_turns = static_cast<double>(flags.load.num_turns_of_all(settings.size())) *
                         static_cast<double>(spec_texts().size());
  double num_done = 0;
  for (const SpecText& text : spec_texts()) {
    QUIRE_ASSIGN_OR_RETURN(const auto prompt, prompt_of(*engine, text));
    const auto turned = [&](SpecSetting setting) {
      bar.update(++num_done, num_turns,
                 fmt::format("{}, drafts: {}", text.name, spec_setting_name(setting)));
    };
    auto outcomes = measure_speculation(*engine, prompt, flags.load, settings, interrupt, turned);
    if (!outcomes.ok()) bar.clear();
    QUIRE_RETURN_IF_ERROR(outcomes.status());
    all.push_back(*std::move(outcomes));
  }
  bar.clear();
  std::optional<double> cost;  // among several outputs a row costs something else
  if (flags.load.concurrency == 1) cost = clock.cost_of_row();
  if (flags.json) {
    json::array texts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      json::array outcomes;
      for (const SpecOutcome& outcome : all[i]) outcomes.push_back(to_json(outcome, cost));
      texts.push_back({{"text", spec_texts()[i].name},
                       {"message", spec_texts()[i].message},
                       {"outcomes", std::move(outcomes)}});
    }
    json::array steps;
    for (std::int64_t rows = 1; rows <= 1 + most; ++rows) {
      if (const double seconds = clock.seconds(rows); seconds > 0) {
        steps.push_back({{"rows", rows}, {"seconds", seconds}});
      }
    }
    const json::object report = {{"model", engine->info().model_name},
                                 {"isa_level", engine->info().isa_level},
                                 {"threads", engine->info().threads},
                                 {"speculation", flags.engine.speculation->to_text()},
                                 {"output_len", flags.load.num_tokens},
                                 {"num_turns", flags.load.num_turns},
                                 {"concurrency", flags.load.concurrency},
                                 {"cost_of_row", to_json(cost)},
                                 {"steps", std::move(steps)},
                                 {"texts", std::move(texts)}};
    fmt::print("{}\n", json::serialize(report));
    return {};
  }
  fmt::print("{}, {} threads, level {}; {}\n", engine->info().model_name, engine->info().threads,
             engine->info().isa_level, flags.engine.speculation->to_text());
  fmt::print("{} tokens, {} at once, {} turns", flags.load.num_tokens, flags.load.concurrency,
             flags.load.num_turns);
  if (cost) {
    fmt::print("; a step of one row takes {:.2f} ms, a row more costs {:.2f} of it",
               clock.seconds(1) * 1e3, *cost);
  }
  fmt::print("\n\n");
  fmt::print("{:<12}{:>8}{:>10}{:>10}{:>12}{:>8}{:>8}{:>9}{:>9}{:>9}{:>10}{:>8}  {}\n", "text",
             "drafts", "tokens/s", "speed-up", "quartiles", "told", "bound", "draft s", "verify s",
             "drafted", "accepted", "a step", "accepted, by place");
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const SpecOutcome& outcome : all[i]) print_outcome(spec_texts()[i], outcome, cost);
  }
  return {};
}

}  // namespace

Command add_bench_spec(CLI::App& bench) {
  auto flags = std::make_shared<SpecFlags>();
  flags->engine.max_num_seqs = 1;
  flags->engine.max_model_len = 1024;
  set_help(bench,
           {{{"quire bench spec M", "n-grams, up to 8 guesses"},
             {"quire bench spec M --speculative-config '{\"method\": \"suffix\"}' --lengths 4,16",
              "suffixes"}}});
  add_engine_flags(bench, flags->engine);
  add_count(bench, "--output-len", flags->load.num_tokens,
            "Output tokens of each text; of several at once the mean, half to one and a half", 2,
            1 << 20);
  add_count(
      bench, "--concurrency", flags->load.concurrency,
      "Outputs of a text that are decoded at once; several are sampled, each with its own seed", 1,
      4096);
  add_count(bench, "--num-turns", flags->load.num_turns,
            "Number of times that each setting decodes each text", 1, 1 << 16);
  comma_list(bench.add_option("--lengths", flags->lengths,
                              "Fixed numbers of guesses to compare with the governor; those above "
                              "num_speculative_tokens are left out"))
      ->type_name("N,...")
      ->check(whole_number(1, SpeculativeConfig::kMaxTokens))
      ->capture_default_str();
  bench.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_spec(*flags); };
}

}  // namespace quire
