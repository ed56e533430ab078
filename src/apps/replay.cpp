// `quire replay`: an event log's calls through a scheduler of this program, compared step by step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/event_log_files.h"
#include "apps/help.h"
#include "apps/progress.h"
#include "base/json.h"

namespace quire {
namespace {

constexpr int kDiffers = 1;  // exit code, as diff has it

struct ReplayFlags {
  std::filesystem::path file;
  bool json = false;
};

json::array to_json(const std::vector<std::string>& lines) {
  return json::array(lines.begin(), lines.end());
}

json::object report_of(const Replay& replay, const ReplayNotes& notes) {
  const ReplaySummary& s = replay.summary();
  json::object report = {{"identical", !replay.difference()},
                         {"segments", s.num_segments},
                         {"runs", s.num_runs},
                         {"records", s.num_records},
                         {"records_lost", s.num_lost},
                         {"steps", s.num_steps},
                         {"requests", s.num_added},
                         {"refused", s.num_refused},
                         {"finished", s.num_finished},
                         {"aborted", s.num_aborted},
                         {"preemptions", s.num_preemptions},
                         {"scheduled_tokens", s.num_scheduled_tokens},
                         {"output_tokens", s.num_output_tokens},
                         {"draft_tokens", s.num_draft_tokens},
                         {"accepted_drafts", s.num_accepted_drafts},
                         {"branched_drafts", s.num_branched_drafts},
                         {"states_compared", s.num_states_compared},
                         {"recorded_seconds", to_seconds(s.recorded)},
                         {"notes", to_json(notes)}};
  if (replay.end_reason()) report["end"] = *replay.end_reason();
  if (const auto& difference = replay.difference()) {
    report["difference"] = {{"what", difference->what},
                            {"segment", difference->segment},
                            {"step", difference->step_id},
                            {"time_seconds", to_seconds(difference->time)},
                            {"recorded", to_json(difference->recorded)},
                            {"replayed", to_json(difference->replayed)}};
  }
  return report;
}

// The lines that the other side has not got, in their order; how many both have.
void print_lines(const std::vector<std::string>& lines, const std::vector<std::string>& others,
                 char mark) {
  const std::multiset<std::string> other(others.begin(), others.end());
  std::size_t num_equal = 0;
  for (const std::string& line : lines) {
    if (other.contains(line)) {
      ++num_equal;
    } else {
      fmt::print("  {} {}\n", mark, line);
    }
  }
  if (num_equal > 0) fmt::print("    and {} lines that are in both\n", num_equal);
}

void print_difference(const ReplayDifference& difference) {
  fmt::print("first difference, in segment {} at {:.6f} s: {}\n", difference.segment,
             to_seconds(difference.time), difference.what);
  if (difference.recorded.empty() && difference.replayed.empty()) return;
  fmt::print("recorded:\n");
  print_lines(difference.recorded, difference.replayed, '-');
  fmt::print("replayed:\n");
  print_lines(difference.replayed, difference.recorded, '+');
}

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void print_report(const Replay& replay, const ReplayNotes& notes) {
  const ReplaySummary& s = replay.summary();
  fmt::print("{} of {}, {} records over {:.3f} s\n", counted(s.num_segments, "segment"),
             counted(s.num_runs, "run"), s.num_records, to_seconds(s.recorded));
  fmt::print("{} steps: {} tokens computed, {} sampled\n", s.num_steps, s.num_scheduled_tokens,
             s.num_output_tokens);
  if (s.num_draft_tokens > 0) {
    fmt::print("{} drafts computed, {} of them right\n", s.num_draft_tokens, s.num_accepted_drafts);
    if (s.num_branched_drafts > 0) {
      fmt::print("{} drafts were on other paths of their trees than the first\n",
                 s.num_branched_drafts);
    }
  }
  fmt::print("{} requests added, {} refused, {} finished, {} aborted; {} preemptions\n",
             s.num_added, s.num_refused, s.num_finished, s.num_aborted, s.num_preemptions);
  if (s.num_states_compared > 0) {
    fmt::print("{} states between segments compared\n", s.num_states_compared);
  }
  for (const std::string& note : notes) fmt::print("note: {}\n", note);
  if (replay.difference()) {
    print_difference(*replay.difference());
  } else {
    fmt::print("identical\n");
  }
}

Status run_replay(const ReplayFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto files, event_log_files(flags.file));
  Replay replay;
  ReplayNotes notes;
  ProgressBar bar("replaying", "MB");
  const Status status = replay_files(
      files, replay, notes, [] { return false; },
      [&](std::uint64_t done, std::uint64_t total) {
        bar.update(static_cast<double>(done) / 1e6, static_cast<double>(total) / 1e6,
                   fmt::format("step {}", replay.summary().num_steps));
      });
  bar.clear();
  QUIRE_RETURN_IF_ERROR(status);
  if (flags.json) {
    fmt::print("{}\n", json::serialize(report_of(replay, notes)));
  } else {
    print_report(replay, notes);
  }
  // The command did its work, so that this is no error with a code of its own.
  if (replay.difference() && std::fflush(stdout) == 0) std::exit(kDiffers);
  return {};
}

}  // namespace

Command add_replay(CLI::App& app) {
  auto flags = std::make_shared<ReplayFlags>();
  set_help(app, {{{"quire replay events", "what `quire serve --event-log events` wrote"},
                  {"quire replay events.000002 --json", "from the second file on, for programs"}}});
  app.add_option(
         "FILE", flags->file,
         "The log's name, as given to --event-log, or one of its files FILE.000001 and so on")
      ->type_name("FILE")
      ->required();
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.footer("Exit code 0: the same schedule; 1: a different one (the first difference is shown).");
  return [flags] { return run_replay(*flags); };
}

}  // namespace quire
