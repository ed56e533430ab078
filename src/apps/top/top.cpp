// `quire top`: a server's engine at work, in a terminal.
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "apps/chat/sse_parser.h"
#include "apps/commands.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/interrupt.h"
#include "apps/terminal.h"
#include "apps/top/frame.h"
#include "apps/top/live_feed.h"
#include "apps/top/screen.h"

namespace quire {
namespace {

struct TopFlags {
  std::string base_url = "http://localhost:8000";
  std::string api_key;
  double hz = 4;
  bool once = false;
  bool json = false;
  ColorMode color = ColorMode::kAuto;
};

struct Seen {
  LiveEvent event;
  std::string data;  // its text
};

// The first event of the stream that tells how fast things go, which takes two looks.
Result<Seen> one_event(HttpClient& client, double hz) {
  std::optional<Seen> seen;
  SseParser parser([&seen](const SseEvent& event) -> Status {
    QUIRE_ASSIGN_OR_RETURN(LiveEvent live, parse_live_event(event.data));
    if (!live.has_rates) return {};
    seen = Seen{std::move(live), event.data};
    return {StatusCode::kCancelled, "seen"};
  });
  const Status status =
      client.request(live_path(hz), std::nullopt,
                     [&parser](std::string_view piece) { return parser.feed(piece); }, {});
  if (seen) return *std::move(seen);
  if (!status.ok()) return live_error(status, client.base_url());
  return Status::unavailable("the server has closed the connection");
}

Status print_once(const TopFlags& flags, HttpClient client) {
  QUIRE_ASSIGN_OR_RETURN(const Seen seen, one_event(client, flags.hz));
  if (flags.json) {
    QUIRE_ASSIGN_OR_RETURN(const json::value event, parse_json(seen.data, "the server's event"));
    fmt::print("{}\n", json::serialize(event.at("state")));
    return {};
  }
  const FrameStyle style = {
      .width = terminal_width(), .height = 0, .color = use_color(flags.color)};
  for (const std::string& line : frame_of(seen.event, style)) fmt::print("{}\n", line);
  return {};
}

Status watch(const TopFlags& flags, HttpClient client) {
  // A server that cannot be watched at all is an error and no picture.
  QUIRE_ASSIGN_OR_RETURN(Seen first, one_event(client, flags.hz));
  LiveEvent event = std::move(first.event);

  QUIRE_ASSIGN_OR_RETURN(const auto screen, Screen::open());
  InterruptWatcher interrupt;  // before the feed's thread
  QUIRE_RETURN_IF_ERROR(interrupt.watch([&screen] { screen->wake(); }));
  LiveFeed feed(std::move(client), flags.hz, [&screen] { screen->wake(); });
  Status connection;
  while (!interrupt.interrupted()) {
    const FrameStyle style = {.width = terminal_width(),
                              .height = terminal_height() - 1,
                              .color = use_color(flags.color)};
    std::vector<std::string> lines = frame_of(event, style);
    // Why comes last: it may be longer than the line.
    lines.push_back(connection.ok() ? "q: quit" : "trying again: " + connection.message());
    lines.back().resize(std::min(lines.back().size(), static_cast<std::size_t>(style.width)));
    QUIRE_RETURN_IF_ERROR(screen->show(lines));
    constexpr int kRedrawMs = 1000;  // also where nothing comes: the window's size may have changed
    if (screen->wait(kRedrawMs) == Screen::Wake::kQuit) return {};
    LiveFeed::News news = feed.take();
    connection = std::move(news.connection);
    if (!news.event) continue;
    auto next = parse_live_event(*news.event);
    if (!next.ok()) {
      connection = next.status();
      continue;
    }
    if (next->last_step.empty() && next->num_running > 0) next->last_step = event.last_step;
    event = *std::move(next);
  }
  return {};
}

Status run_top(const TopFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(HttpClient client, HttpClient::create(flags.base_url, flags.api_key, ""));
  const bool terminal = ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDIN_FILENO) != 0;
  if (flags.once || flags.json || !terminal) return print_once(flags, std::move(client));
  return watch(flags, std::move(client));
}

}  // namespace

Command add_top(CLI::App& app) {
  auto flags = std::make_shared<TopFlags>();
  set_help(app,
           {{{"quire top", "the server on http://localhost:8000"},
             {"quire top --base-url http://host:9000 --once", "another server, one picture"}}});
  app.add_option("--base-url", flags->base_url, "The server's address")
      ->type_name("URL")
      ->capture_default_str();
  app.add_option("--api-key", flags->api_key, "The server's key")
      ->type_name("KEY")
      ->envname("QUIRE_API_KEY");
  app.add_option("--hz", flags->hz, "Updates per second")
      ->type_name("N")
      ->check(number(1, 10))
      ->capture_default_str();
  app.add_flag("--once", flags->once, "Print one picture and exit; the default without a terminal");
  app.add_flag("--json", flags->json, "Print one state as JSON and exit");
  add_color_option(app, flags->color);
  return [flags] { return run_top(*flags); };
}

}  // namespace quire
