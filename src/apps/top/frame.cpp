#include "apps/top/frame.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr int kMinWidth = 40;
constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";

// Text with a mark for terminals; its width is that of the text.
std::string styled(std::string_view text, std::string_view mark, const FrameStyle& style) {
  return style.color ? fmt::format("{}{}{}", mark, text, kReset) : std::string(text);
}

// Plain text cut to the width. Ids and names are printable ASCII or UTF-8; a character is a column.
std::string cut(std::string_view text, int width) {
  std::size_t end = 0;
  for (int columns = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && columns++ == width) break;
  }
  return std::string(text.substr(0, end));
}

// An id in so many columns. Ids often begin alike: of a long one the end says more. Printable
// ASCII.
std::string short_id(const std::string& id, int width) {
  constexpr std::size_t kStart = 5;
  constexpr std::string_view kGap = "..";
  const auto room = static_cast<std::size_t>(width);
  if (id.size() <= room) return id;
  const std::size_t tail = room - kStart - kGap.size();
  return fmt::format("{}{}{}", id.substr(0, kStart), kGap, id.substr(id.size() - tail));
}

std::string milliseconds_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} ms", *value) : "-";
}

std::string age(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// "[####::....]": held, cached, free.
std::string block_bar(const LiveEvent& event, int width) {
  const auto cells = [&](std::int64_t blocks) {
    const double share = static_cast<double>(blocks) /
                         static_cast<double>(std::max<std::int64_t>(event.blocks_total, 1));
    return static_cast<std::size_t>(std::clamp<long>(std::lround(share * width), 0, width));
  };
  const std::size_t used = cells(event.blocks_used);
  const std::size_t cached =
      std::min(cells(event.blocks_cached), static_cast<std::size_t>(width) - used);
  return fmt::format("[{}{}{}]", std::string(used, '#'), std::string(cached, ':'),
                     std::string(static_cast<std::size_t>(width) - used - cached, '.'));
}

// One of the colours of the 256 that are neither dark nor grey, by request.
std::string slot_mark(std::int64_t request) {
  constexpr std::int64_t kColors[] = {33, 208, 41, 170, 220, 45, 203, 112, 141, 215, 80, 211};
  return fmt::format("\x1b[38;5;{}m", kColors[request % std::ssize(kColors)]);
}

// A character for each slot of the last step: '#' an output token, 'P' tokens of a prompt, 'x'
// thrown away, '.' empty.
std::string slot_strip(const LiveEvent& event, int width, const FrameStyle& style) {
  std::int64_t num_slots = 0;
  for (const LiveRow& row : event.last_step) num_slots = std::max(num_slots, row.slot + 1);
  num_slots =
      std::clamp<std::int64_t>(num_slots, std::min<std::int64_t>(event.max_num_seqs, 8), width);
  std::vector<const LiveRow*> slots(static_cast<std::size_t>(num_slots));
  for (const LiveRow& row : event.last_step) {
    if (row.slot >= 0 && row.slot < num_slots) slots[static_cast<std::size_t>(row.slot)] = &row;
  }
  std::string strip;
  for (const LiveRow* row : slots) {
    if (row == nullptr) {
      strip += styled(".", kDim, style);
      continue;
    }
    const char* mark = row->tokens == 0 ? "#" : row->tokens < 0 ? "x" : "P";
    strip += styled(mark, slot_mark(std::max<std::int64_t>(row->request, 0)), style);
  }
  return strip;
}

std::string speculation_line(const LiveSpeculation& speculation) {
  std::string line = fmt::format("guesses by {}   accepted {} of {}", speculation.method,
                                 speculation.accepted_tokens, speculation.draft_tokens);
  if (speculation.draft_tokens > 0) {
    line += fmt::format(" ({:.0f}%)", 100.0 * static_cast<double>(speculation.accepted_tokens) /
                                          static_cast<double>(speculation.draft_tokens));
  }
  if (speculation.speedup) line += fmt::format("   speed-up {:.2f}", *speculation.speedup);
  return line;
}

// Columns of a request's name: what the numbers (47) and a cause of waiting (21) leave.
int name_width_of(int width) { return std::clamp(width - 47 - 21, 12, 40); }

std::string request_line(const LiveSequence& each, bool runs, int width) {
  const int name_width = name_width_of(width);
  std::string name = each.index > 0 ? fmt::format("{}#{}", each.id, each.index) : each.id;
  name = short_id(name, name_width);
  const std::string wait =
      each.wait.empty() ? "" : fmt::format("{} {}", each.wait, age(each.waited_s));
  return cut(fmt::format("{:<{}} {:<5} {:>8} {:>6} {:>7} {:>6} {:>7}  {}", name, name_width,
                         runs ? "run" : "wait", each.computed_tokens, each.known_tokens,
                         each.max_tokens, each.blocks, age(each.age_s), wait),
             width);
}

std::string header_line(int width) {
  return cut(
      fmt::format("{:<{}} {:<5} {:>8} {:>6} {:>7} {:>6} {:>7}  {}", "REQUEST", name_width_of(width),
                  "STATE", "COMPUTED", "KNOWN", "AT MOST", "BLOCKS", "AGE", "WAITS FOR"),
      width);
}

}  // namespace

std::vector<std::string> frame_of(const LiveEvent& event, const FrameStyle& style) {
  const int width = std::max(style.width, kMinWidth);
  std::vector<std::string> lines;
  lines.push_back(
      styled(cut(fmt::format("{}   up {}", event.model, age(event.time_s)), width), kBold, style));
  lines.push_back(
      cut(fmt::format("running {} of {}   waiting {}   preemptions {}", event.num_running,
                      event.max_num_seqs, event.num_waiting, event.preemptions),
          width));
  lines.push_back(cut(
      event.has_rates
          ? fmt::format(
                "output {:.1f} tok/s   prompt {:.1f} tok/s   steps {:.1f}/s   requests {:.1f}/s",
                event.output_tokens, event.prompt_tokens, event.steps, event.requests)
          : "output -   prompt -   steps -   requests -",
      width));
  lines.push_back(cut(fmt::format("first token p50 {} p99 {}   between tokens p50 {} p99 {}",
                                  milliseconds_text(event.first_token.p50_ms),
                                  milliseconds_text(event.first_token.p99_ms),
                                  milliseconds_text(event.inter_token.p50_ms),
                                  milliseconds_text(event.inter_token.p99_ms)),
                      width));
  if (event.speculation) lines.push_back(cut(speculation_line(*event.speculation), width));
  const std::string blocks =
      fmt::format("  {} of {} blocks held, {} shared, {} cached", event.blocks_used,
                  event.blocks_total, event.blocks_shared, event.blocks_cached);
  const int bar = std::clamp(width - static_cast<int>(blocks.size()) - 8, 8, 40);
  lines.push_back(cut(fmt::format("KV    {}{}", block_bar(event, bar), blocks), width));
  lines.push_back("slots " + slot_strip(event, width - 6, style));
  lines.emplace_back();
  lines.push_back(styled(header_line(width), kBold, style));

  const std::size_t total = event.running.size() + event.waiting.size();
  std::size_t room = total;
  if (style.height > 0) {
    const auto left = style.height - static_cast<int>(lines.size());
    room = static_cast<std::size_t>(std::max(left, 0));
    if (room < total && room > 0) --room;  // for the line that says so
  }
  std::size_t shown = 0;
  for (const LiveSequence& each : event.running) {
    if (shown < room) lines.push_back(request_line(each, true, width));
    shown += shown < room ? 1 : 0;
  }
  for (const LiveSequence& each : event.waiting) {
    if (shown < room) lines.push_back(styled(request_line(each, false, width), kDim, style));
    shown += shown < room ? 1 : 0;
  }
  const std::int64_t more =
      event.num_running + event.num_waiting - static_cast<std::int64_t>(shown);
  if (more > 0) lines.push_back(styled(fmt::format("and {} more", more), kDim, style));
  if (style.height > 0 && std::ssize(lines) > style.height) {
    lines.resize(static_cast<std::size_t>(style.height));
  }
  return lines;
}

}  // namespace quire
