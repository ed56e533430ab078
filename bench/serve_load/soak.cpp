#include "serve_load/soak.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve_load/load_client.h"
#include "serve_load/requests.h"
#include "serve_load/soak_batch.h"

namespace quire::load {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::chrono::minutes kRoundPatience(5);  // for a round

enum class Kind { kStream, kWhole, kMany, kEmbedding, kLeaves, kSlow, kRefused };
constexpr std::array<std::string_view, 7> kKindNames = {
    "streams", "whole_answers", "many_prompts", "embeddings", "aborted", "slow_readers", "refused"};
// Of how many clients in twenty each kind is.
constexpr std::array kShares = {5, 3, 3, 2, 4, 1, 2};

// One client after the other, each of a random kind.
class Traffic {
 public:
  explicit Traffic(const LoadShape& shape) : shape_(shape), random_(shape.seed) {}

  Kind next_kind() {
    std::discrete_distribution<std::size_t> kinds(kShares.begin(), kShares.end());
    return static_cast<Kind>(kinds(random_));
  }

  ClientPlan plan(Kind kind) {
    const CompletionShape shape = completion(kind != Kind::kWhole);
    ClientPlan plan;
    plan.request = completion_request(shape);
    switch (kind) {
      case Kind::kStream:
      case Kind::kWhole:
        plan.num_requests = static_cast<int>(1 + up_to(3));
        break;
      case Kind::kMany:
        plan.request = post_request("/v1/completions", many_prompts_body(shape));
        break;
      case Kind::kEmbedding:
        plan.request =
            post_request("/v1/embeddings", fmt::format(R"({{"input":[{}]}})", prompt_of(shape)));
        break;
      case Kind::kLeaves:
        plan.reset = up_to(1) == 0;
        if (up_to(2) == 0) {
          plan.leave_after_sent = up_to(plan.request.size() - 1);
        } else if (up_to(1) == 0) {
          plan.leave_after_events = static_cast<std::int64_t>(1 + up_to(5));
        } else {
          plan.leave_after = std::chrono::microseconds(up_to(300'000));
        }
        break;
      case Kind::kSlow:
        plan.byte_interval = milliseconds(20);
        plan.leave_after = std::chrono::microseconds(1'000'000 + up_to(2'000'000));
        plan.reset = true;
        break;
      case Kind::kRefused:
        plan.request = refused_request();
    }
    return plan;
  }

  std::vector<std::string> batch_lines() {
    std::vector<std::string> lines;
    const std::size_t count = 1 + up_to(7);
    while (lines.size() < count) lines.push_back(completion_body(completion(false)));
    return lines;
  }
  bool cancels_batch() { return up_to(3) == 0; }

 private:
  CompletionShape completion(bool stream) {
    return {.key = static_cast<std::int32_t>(up_to(StepTrace::kMaxKey - 1)),
            .prompt_tokens = 1 + up_to(4 * shape_.prompt_tokens),
            .max_tokens = static_cast<std::int64_t>(
                1 + up_to(static_cast<std::size_t>(shape_.max_tokens - 1))),
            .stream = stream};
  }
  std::size_t up_to(std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random_);
  }
  static std::string prompt_of(const CompletionShape& shape) {
    return fmt::format("{}", fmt::join(StepTrace::prompt_of(shape.key, shape.prompt_tokens), ","));
  }
  std::string many_prompts_body(const CompletionShape& shape) {
    std::vector<std::string> prompts;
    const std::size_t count = 1 + up_to(7);
    while (prompts.size() < count) prompts.push_back("[" + prompt_of(shape) + "]");
    return fmt::format(R"({{"prompt":[{}],"n":{},"max_tokens":{},"ignore_eos":true,"logprobs":2}})",
                       fmt::join(prompts, ","), 1 + up_to(2), shape.max_tokens);
  }
  std::string refused_request() {
    switch (up_to(6)) {
      case 0:
        return post_request("/v1/completions", "{\"prompt\":");
      case 1:
        return post_request("/v1/completions", R"({"prompt":[1],"max_tokens":"many"})");
      case 2:
        return post_request("/v1/completions", R"({"prompt":[1],"temperature":-1})");
      case 3:  // longer than any model takes
        return post_request("/v1/completions",
                            fmt::format(R"({{"prompt":[{}1]}})", repeated("1,", 200'000)));
      case 4:
        return post_request("/v1/embeddings", R"({"input":[]})");
      case 5:
        return get_request("/v1/nothing");
      default:
        return get_request("/v1/completions");
    }
  }
  static std::string repeated(std::string_view text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  }

  const LoadShape& shape_;
  std::mt19937_64 random_;
};

// Whether the client came to the end that its kind has.
bool ended_well(Kind kind, const ClientResult& result) {
  switch (kind) {
    case Kind::kLeaves:
      return result.ending == Ending::kLeft || result.ending == Ending::kAnswered;
    case Kind::kSlow:  // the server may drop it
      return result.ending != Ending::kMalformed && result.ending != Ending::kNone;
    case Kind::kRefused:
      return result.ending == Ending::kAnswered && result.status >= 400 && result.status < 500;
    default:
      return result.ending == Ending::kAnswered && result.num_bad_status == 0 &&
             result.num_errors == 0;
  }
}

struct Totals {
  std::array<std::int64_t, kKindNames.size()> clients{};
  std::int64_t batches = 0;
  std::int64_t cancelled_batches = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t wrong_ends = 0;
  std::string first_wrong_end;
};

Status run_round(const Target& target, const LoadShape& shape, Traffic& traffic, Totals& totals) {
  QUIRE_ASSIGN_OR_RETURN(SoakBatch batch, SoakBatch::begin(target, traffic.batch_lines()));
  ++totals.batches;
  if (traffic.cancels_batch()) {
    batch.cancel();
    ++totals.cancelled_batches;
  }
  LoadClient client(target.host(), target.port(), shape.clients);
  std::vector<Kind> kinds;
  for (int i = 0; i < shape.clients; ++i) {
    kinds.push_back(traffic.next_kind());
    client.add(traffic.plan(kinds.back()));
  }
  QUIRE_RETURN_IF_ERROR(client.run(kRoundPatience));
  client.close_all();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto kind = static_cast<std::size_t>(kinds[i]);
    const ClientResult& result = client.result(i);
    ++totals.clients[kind];
    totals.completion_tokens += result.completion_tokens;
    if (ended_well(kinds[i], result)) continue;
    ++totals.wrong_ends;
    if (totals.first_wrong_end.empty()) {
      totals.first_wrong_end =
          fmt::format("{}: ending {}, status {}, {}", kKindNames[kind],
                      static_cast<int>(result.ending), result.status, result.error);
    }
  }
  return batch.finish();
}

// Sums of /metrics that must hold with nobody asking: each name's states add up to its total.
struct Sum {
  std::string name;
  std::string label;
  std::string total;
  std::vector<std::string> parts;
};

const std::vector<Sum>& sums() {
  static const std::vector<Sum> kSums = {
      {"quire_blocks", "state", "total", {"free", "used"}},
      {"quire_prompt_tokens", "outcome", "added", {"computed", "cached", "dropped", "pending"}},
      {"quire_requests", "state", "added", {"running", "waiting", "finished", "aborted"}}};
  return kSums;
}

const std::vector<std::string>& zeros() {
  static const std::vector<std::string> kZeros = {
      "quire_blocks_leaked", "quire_blocks{state=\"used\"}",
      "quire_prompt_tokens{outcome=\"pending\"}", "vllm:num_requests_running",
      "vllm:num_requests_waiting"};
  return kZeros;
}

// Waits until nothing runs any more; the laws that do not hold then.
Result<std::vector<std::string>> broken_sums(const Target& target, json::object& report) {
  std::vector<std::string> broken;
  for (int tries = 0; tries < 100; ++tries) {
    broken.clear();
    for (const std::string& name : zeros()) {
      QUIRE_ASSIGN_OR_RETURN(const double value, target.metric(name));
      report[name] = value;
      if (value != 0) broken.push_back(fmt::format("{} is {}, not 0", name, value));
    }
    if (broken.empty()) break;
    std::this_thread::sleep_for(milliseconds(100));
  }
  for (const Sum& sum : sums()) {
    const auto value_of = [&](const std::string& state) {
      return target.metric(fmt::format("{}{{{}=\"{}\"}}", sum.name, sum.label, state));
    };
    QUIRE_ASSIGN_OR_RETURN(const double total, value_of(sum.total));
    double parts = 0;
    for (const std::string& part : sum.parts) {
      QUIRE_ASSIGN_OR_RETURN(const double value, value_of(part));
      parts += value;
    }
    report[fmt::format("{}_{}", sum.name, sum.total)] = total;
    if (parts != total) {
      broken.push_back(fmt::format("{}: {} are {}, {} in all", sum.name,
                                   fmt::join(sum.parts, " + "), parts, total));
    }
  }
  return broken;
}

// What the server's process holds, over the time of the run.
class Watch {
 public:
  // The first round opens and starts what stays: `first` is as it is then.
  explicit Watch(const ProcessStats& first) : first_(first) {}

  void note(double at_s, const ProcessStats& stats) {
    samples_.push_back({at_s, stats.rss_bytes});
    last_ = stats;
  }
  const ProcessStats& first() const { return first_; }
  const ProcessStats& last() const { return last_; }

  void judge(double run_s, json::object& report, std::vector<std::string>& broken) const {
    const auto no_more = [&](std::string_view what, std::int64_t before, std::int64_t after) {
      report[fmt::format("{}_before", what)] = before;
      report[fmt::format("{}_after", what)] = after;
      if (after > before) broken.push_back(fmt::format("{}: {}, then {}", what, before, after));
    };
    no_more("descriptors", first_.num_descriptors, last_.num_descriptors);
    no_more("threads", first_.num_threads, last_.num_threads);
    const double span = std::min(kSettlingSeconds, run_s / 2);
    const std::int64_t settling = most_resident(0, span);
    const std::int64_t ending = most_resident(run_s - span, run_s);
    report["rss_after_first_round_mib"] = mib(first_.rss_bytes);
    report["rss_most_at_first_mib"] = mib(settling);
    report["rss_most_at_last_mib"] = mib(ending);
    report["rss_at_end_mib"] = mib(last_.rss_bytes);
    if (run_s > 2 * kSettlingSeconds && ending > settling + kMaxGrowthBytes) {
      broken.push_back(fmt::format("resident memory: {} MiB in the first {:.0f} s, {} in the last",
                                   mib(settling), span, mib(ending)));
    }
  }

  static double mib(std::int64_t bytes) {
    return std::round(static_cast<double>(bytes) / (1 << 20) * 10) / 10;
  }

 private:
  struct Sample {
    double at_s;
    std::int64_t rss_bytes;
  };

  std::int64_t most_resident(double from_s, double to_s) const {
    std::int64_t most = 0;
    for (const Sample& sample : samples_) {
      if (sample.at_s >= from_s && sample.at_s <= to_s) most = std::max(most, sample.rss_bytes);
    }
    return most;
  }

  ProcessStats first_;
  ProcessStats last_;
  std::vector<Sample> samples_;
};

// What the process holds once its last connections are closed: no more than it held before, or what
// it has not let go of after a while.
ProcessStats settled(const Target& target, const ProcessStats& before) {
  constexpr int kTries = 300;
  ProcessStats now = target.stats();
  for (int tries = 0; tries < kTries && (now.num_descriptors > before.num_descriptors ||
                                         now.num_threads > before.num_threads);
       ++tries) {
    std::this_thread::sleep_for(milliseconds(100));
    now = target.stats();
  }
  return now;
}

}  // namespace

Result<json::object> soak(const Target& target, const LoadShape& shape,
                          const std::function<void(const std::string&)>& progress) {
  Traffic traffic(shape);
  Totals totals;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  QUIRE_RETURN_IF_ERROR(run_round(target, shape, traffic, totals));
  std::this_thread::sleep_for(seconds(1));
  Watch watch(target.stats());
  watch.note(elapsed(), target.stats());
  std::int64_t rounds = 1;
  double next_line_s = kProgressSeconds;
  while (elapsed() < shape.seconds) {
    QUIRE_RETURN_IF_ERROR(run_round(target, shape, traffic, totals));
    ++rounds;
    watch.note(elapsed(), target.stats());
    if (elapsed() < next_line_s) continue;
    next_line_s = elapsed() + kProgressSeconds;
    progress(fmt::format(
        "{:.0f} of {:.0f} s: {} rounds, {} tokens, {} wrong ends, {} MiB, {} descriptors, "
        "{} threads",
        elapsed(), shape.seconds, rounds, totals.completion_tokens, totals.wrong_ends,
        Watch::mib(watch.last().rss_bytes), watch.last().num_descriptors,
        watch.last().num_threads));
  }

  json::object report = {{"seconds", std::round(elapsed())}, {"rounds", rounds}};
  for (std::size_t kind = 0; kind < kKindNames.size(); ++kind) {
    report[kKindNames[kind]] = totals.clients[kind];
  }
  report["batches"] = totals.batches;
  report["cancelled_batches"] = totals.cancelled_batches;
  report["completion_tokens"] = totals.completion_tokens;
  report["wrong_ends"] = totals.wrong_ends;
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> broken, broken_sums(target, report));
  if (totals.wrong_ends > 0) {
    broken.push_back(
        fmt::format("{} clients ended otherwise: {}", totals.wrong_ends, totals.first_wrong_end));
  }
  watch.note(elapsed(), settled(target, watch.first()));
  watch.judge(elapsed(), report, broken);
  json::array list;
  for (const std::string& law : broken) list.emplace_back(law);
  report["broken"] = std::move(list);
  return report;
}

}  // namespace quire::load
