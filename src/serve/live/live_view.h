// The engine as it works, for who watches it: the page's Engine tab, `quire top`, anybody with
// curl.
//
// One thread, which sleeps while nobody watches, looks at the engine at most kMaxHz times a second
// and sends what it saw to all viewers. A viewer that reads its events too slowly misses some,
// never the steps between them (as far as they are kept), and never costs more memory than one
// event.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/api.h"
#include "serve/http/router.h"
#include "serve/live/latency_window.h"
#include "serve/live/live_json.h"
#include "serve/live/step_log.h"
#include "serve/live/step_recorder.h"

namespace quire {

class LiveView {
 public:
  static constexpr double kMinHz = 1;
  static constexpr double kMaxHz = 10;
  static constexpr double kDefaultHz = 4;
  static constexpr std::size_t kMaxViewers = 64;
  static constexpr std::int64_t kMaxBlockRuns = 4096;  // of the block map
  static constexpr Duration kRateWindow = std::chrono::seconds(1);
  // Reading the block map takes at most one part in so many of the engine's time: that of a large
  // pool is read less often.
  static constexpr int kBlocksShare = 250;

  // Throws as new_thread() does. `recorder` is told of the engine's steps by whoever created the
  // engine, `latencies` of its tokens; all three outlive this.
  LiveView(Engine& engine, LatencyWindow& latencies, std::string model_name,
           StepRecorder& recorder);
  ~LiveView();

  // GET /engine/live?hz=4: events {"state", "steps", "steps_missed"} until the client goes.
  // GET /engine/state: one state.
  // The routes must not be called after this object's end.
  std::vector<Route> routes();

  // Takes no more viewers, and ends all streams soon. Any thread.
  void stop();

 private:
  struct Viewer;
  struct Sighting;

  void join(const std::shared_ptr<Exchange>& exchange);
  void ask(std::shared_ptr<Exchange> exchange);
  void run();
  void show();
  void watch(bool on);
  std::optional<Instant> next_due() const;
  bool tick(std::unique_lock<std::mutex>& lock);
  void send(const std::vector<std::shared_ptr<Viewer>>& viewers, std::string_view state,
            Instant now);
  std::optional<Sighting> sight();
  LiveState take_in(Sighting sighting);

  Engine& engine_;
  LatencyWindow& latencies_;
  std::string model_name_;
  StepRecorder& recorder_;

  std::mutex mutex_;
  std::condition_variable wake_;
  const char* closed_ = nullptr;  // why no more is shown
  std::vector<std::shared_ptr<Viewer>> viewers_;
  std::vector<std::shared_ptr<Exchange>> asked_;  // wait for one state

  // The thread's own.
  bool watching_ = false;
  std::optional<Instant> last_look_;
  std::deque<StatsAt> history_;  // of the last kRateWindow
  BlockRuns blocks_;
  std::optional<Instant> last_blocks_;
  Duration blocks_cost_{};
  StepLog steps_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace quire
