// Responses in the background (`background: true`): they run on when their client has gone, can be
// asked for while they run, followed as a stream from any of their events, and cancelled.
//
// Bounded: kMaxLive run at a time, and each keeps kMaxEventBytes of its events; of one that has
// more none are kept, and it can only be had whole. When it ends it goes to the ResponseStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/http/exchange.h"
#include "serve/protocols/openai/response_store.h"

namespace quire {

class BackgroundResponse;

// Those that run. All of these: any thread.
class BackgroundResponses {
 public:
  static constexpr std::size_t kMaxLive = 64;

  // False where kMaxLive run already.
  bool add(std::string id, std::shared_ptr<BackgroundResponse> response);
  std::shared_ptr<BackgroundResponse> find(std::string_view id) const;  // null: it does not run
  void remove(std::string_view id);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<BackgroundResponse>, std::less<>> live_;
};

// The text of events "event: ...\ndata: ...\n\n", which sequence_number counts from 0, from the
// event after number `after` on; all of them where it is absent.
std::string_view events_after(std::string_view events, std::optional<std::int64_t> after);

// The exchange that a response in the background is written to, in place of its client's: a stream
// of events, of which the first kQueuedEvents tell that it waits.
class BackgroundResponse final : public Exchange {
 public:
  static constexpr std::size_t kMaxEventBytes = 2U << 20;
  static constexpr std::size_t kQueuedEvents = 2;

  // `response`: the Response object without its output, as `queued`. `caller` gets it as answer, or
  // the stream where it follows. `live` and `store` outlive nothing: they are shared.
  BackgroundResponse(std::string id, json::object response, std::shared_ptr<Exchange> caller,
                     bool caller_follows, std::shared_ptr<BackgroundResponses> live,
                     std::shared_ptr<ResponseStore> store);

  // The Response object as it stands: queued, in progress, or as it is stored at its end.
  std::string snapshot();
  // What goes to the store at its end, whatever that is.
  void keep(StoredResponse stored);
  std::shared_ptr<const StoredResponse> kept();
  // Aborts it. Where it has not ended by itself meanwhile it is stored as `cancelled`, unless
  // `forget`. Any thread but those that answer; when this returns it has ended.
  void cancel(bool forget);
  // Hands its events after number `after` to `follower`, then each as it comes. False where they
  // are not kept, or those that are there are more than `max_bytes`.
  bool follow(const std::shared_ptr<Exchange>& follower, std::optional<std::int64_t> after,
              std::uint64_t max_bytes);

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;  // it was refused: the caller's answer
  void start_stream(HttpResponse head) override;
  void write(std::string_view events) override;
  void finish() override;
  std::size_t unsent_bytes() const override { return 0; }
  void on_disconnect(std::function<void()> gone) override;
  std::shared_ptr<RequestObserver> observer() const override { return observer_; }

 private:
  // With the mutex held.
  std::string text_of(std::string_view status) const;
  void end();

  const std::string id_;
  const json::object response_;
  HttpRequest request_;
  std::shared_ptr<RequestObserver> observer_;
  const std::shared_ptr<BackgroundResponses> live_;
  const std::shared_ptr<ResponseStore> store_;
  const bool caller_follows_;

  std::mutex mutex_;
  std::shared_ptr<Exchange> caller_;  // until it has its answer, or the head of its stream
  std::vector<std::shared_ptr<Exchange>> followers_;
  std::function<void()> gone_;
  std::string events_;
  bool events_kept_ = true;
  bool begun_ = false;  // more was written than the events of one that waits
  bool ended_ = false;
  StoredResponse stored_;
};

}  // namespace quire
