// `quire bench spec`: what guessing tokens gives on texts of several kinds, beside what theory says
// that it can.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/bench_spec/agreement.h"
#include "apps/bench_spec/measure.h"
#include "apps/bench_spec/report.h"
#include "apps/bench_spec/report_html.h"
#include "apps/bench_spec/texts.h"
#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/engine_flags.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/output_file.h"
#include "apps/progress.h"

namespace quire {
namespace {

struct SpecFlags {
  EngineArgs engine;
  SpecLoad load;
  std::vector<std::int64_t> lengths = {1, 2, 4, 8};
  bool json = false;
  std::string html;
};

// The tokens that end the ten digits, most often ten.
Result<std::vector<TokenId>> digits_of(const Engine& engine) {
  std::set<TokenId> digits;
  for (char digit = '0'; digit <= '9'; ++digit) {
    QUIRE_ASSIGN_OR_RETURN(const auto token_ids, engine.encode_text({&digit, 1}));
    if (!token_ids.empty()) digits.insert(token_ids.back());
  }
  return std::vector<TokenId>(digits.begin(), digits.end());
}

// A chat, where the model has a template for it.
Result<SpecPrompt> prompt_of(const Engine& engine, const SpecText& text) {
  SpecPrompt prompt;
  if (engine.chat_template().empty()) {
    QUIRE_ASSIGN_OR_RETURN(prompt.token_ids, engine.encode_text(text.message));
  } else {
    Conversation conversation;
    conversation.messages.push_back(json::object{{"role", "user"}, {"content", text.message}});
    QUIRE_ASSIGN_OR_RETURN(prompt.token_ids, engine.encode_chat(conversation));
  }
  if (text.random_digits) {
    QUIRE_ASSIGN_OR_RETURN(prompt.random_of, digits_of(engine));
  }
  return prompt;
}

// Decodes after each prompt, which are those of the texts, in every setting; after an interrupt, as
// far as it came.
Result<std::vector<SpecTextReport>> measure_texts(Engine& engine, const SpecFlags& flags,
                                                  std::span<const SpecPrompt> prompts,
                                                  std::span<const SpecSetting> settings,
                                                  const InterruptWatcher& interrupt) {
  std::vector<SpecTextReport> texts;
  ProgressBar bar("decoding", "turns");
  const auto num_turns = static_cast<double>(flags.load.num_turns_of_all(settings.size())) *
                         static_cast<double>(prompts.size());
  double num_done = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const SpecText& text = spec_texts()[i];
    const auto turned = [&](SpecSetting setting) {
      bar.update(++num_done, num_turns,
                 fmt::format("{}, drafts: {}", text.name, spec_setting_name(setting)));
    };
    auto outcomes =
        measure_speculation(engine, prompts[i], flags.load, settings, interrupt, turned);
    if (!outcomes.ok() && (!interrupt.interrupted() || texts.empty())) return outcomes.status();
    if (outcomes.ok()) texts.push_back({.text = text, .outcomes = *std::move(outcomes)});
    if (interrupt.interrupted()) break;
  }
  return texts;
}

// What the draft model, in an engine of its own, says of the texts that the model samples, one
// after each prompt. Random ones are not of the model.
Status compare_models(std::unique_ptr<Engine> engine, EngineArgs args, std::int64_t num_tokens,
                      std::span<const SpecPrompt> prompts, const InterruptWatcher& interrupt,
                      std::vector<SpecTextReport>& texts) {
  constexpr std::int64_t kMaxPlaces = 64;  // all logits of all texts are kept
  const std::int64_t places = std::min(num_tokens, kMaxPlaces);
  std::vector<std::size_t> written;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].text.random_digits) written.push_back(i);
  }
  ProgressBar bar("comparing with the draft model", "texts");
  const auto show = [&](std::size_t num_done) -> Status {
    if (interrupt.interrupted()) return {StatusCode::kCancelled, "interrupted"};
    bar.update(static_cast<double>(num_done), 2 * static_cast<double>(written.size()), "");
    return {};
  };
  std::vector<ScoredOutput> outputs;
  for (const std::size_t i : written) {
    QUIRE_RETURN_IF_ERROR(show(outputs.size()));
    QUIRE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                           sample_scored(*engine, prompts[i].token_ids, places));
  }
  bar.clear();     // loading has one of its own
  engine.reset();  // there may not be memory for both
  args.model = args.speculation->model;
  args.speculation.reset();
  args.event_log.clear();
  QUIRE_ASSIGN_OR_RETURN(const auto draft, start_engine(std::move(args)));
  for (std::size_t n = 0; n < written.size(); ++n) {
    QUIRE_RETURN_IF_ERROR(show(written.size() + n));
    const std::size_t i = written[n];
    QUIRE_ASSIGN_OR_RETURN(texts[i].agreement,
                           agreement_on(*draft, prompts[i].token_ids, outputs[n]));
  }
  return {};
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
  std::optional<OutputFile> html;
  Provenance made;  // when it begins
  if (!flags.html.empty()) {
    made = provenance();
    QUIRE_ASSIGN_OR_RETURN(html, OutputFile::create(flags.html));
  }
  InterruptWatcher interrupt;
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  RowClock clock;
  QUIRE_ASSIGN_OR_RETURN(auto engine, start_engine(flags.engine, [&clock](const StepRecord& step) {
                           clock.stepped(step);
                         }));
  SpecReport report = {.model = engine->info().model_name,
                       .isa_level = engine->info().isa_level,
                       .threads = engine->info().threads,
                       .speculation = flags.engine.speculation->to_text(),
                       .max_guesses = most,
                       .load = flags.load};
  std::vector<SpecPrompt> prompts;
  for (const SpecText& text : spec_texts()) {
    QUIRE_ASSIGN_OR_RETURN(prompts.emplace_back(), prompt_of(*engine, text));
  }
  QUIRE_ASSIGN_OR_RETURN(report.texts, measure_texts(*engine, flags, prompts, settings, interrupt));
  report.interrupted = interrupt.interrupted();
  // What was measured before is told even if this fails.
  Status compared;
  if (report.interrupted) compared = Status(StatusCode::kCancelled, "interrupted");
  if (flags.load.concurrency == 1) {
    report.costs = clock.costs();
    if (compared.ok() && flags.engine.speculation->method == SpeculativeMethod::kDraftModel) {
      compared = compare_models(std::move(engine), flags.engine, flags.load.num_tokens, prompts,
                                interrupt, report.texts);
    }
  }
  if (flags.json) {
    fmt::print("{}\n", json::serialize(to_json(report)));
  } else {
    fmt::print("{}", to_text(report));
  }
  if (html) {
    QUIRE_RETURN_IF_ERROR(html->write(to_html(report, made)));
    QUIRE_RETURN_IF_ERROR(html->close());
  }
  return compared;
}

}  // namespace

Command add_bench_spec(CLI::App& bench) {
  auto flags = std::make_shared<SpecFlags>();
  flags->engine.max_num_seqs = 1;
  flags->engine.max_model_len = 1024;
  set_help(bench,
           {{{"quire bench spec M", "n-grams, up to 8 guesses"},
             {"quire bench spec M --speculative-config '{\"method\": \"suffix\"}' --html spec.html",
              "suffixes, with charts"}}});
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
  bench.add_option("--html", flags->html, "Write a page with charts into this file")
      ->type_name("FILE");
  return [flags] { return run_spec(*flags); };
}

}  // namespace quire
