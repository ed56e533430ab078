#include "serve/quotas/metered_routes.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "serve/http/http_error.h"

namespace quire {
namespace {

void add_standing(HttpResponse& response, KeyQuotas& quotas, const std::string& caller) {
  const QuotaLimits& limits = quotas.limits_of(caller);
  const QuotaStanding standing = quotas.standing(caller, KeyQuotas::Clock::now());
  const auto add = [&](std::string_view what, std::int64_t limit, std::int64_t left,
                       double full_s) {
    response.headers.push_back({fmt::format("x-ratelimit-limit-{}", what), std::to_string(limit)});
    response.headers.push_back(
        {fmt::format("x-ratelimit-remaining-{}", what), std::to_string(left)});
    response.headers.push_back(
        {fmt::format("x-ratelimit-reset-{}", what), fmt::format("{:.1f}s", full_s)});
  };
  if (limits.requests_per_minute) {
    add("requests", *limits.requests_per_minute, standing.requests, standing.requests_full_s);
  }
  if (limits.tokens_per_minute) {
    add("tokens", *limits.tokens_per_minute, standing.tokens, standing.tokens_full_s);
  }
}

// Another exchange, which is in flight until its answer has ended or its client has gone.
class MeteredExchange final : public Exchange {
 public:
  MeteredExchange(std::shared_ptr<Exchange> inner, KeyQuotas& quotas)
      : inner_(std::move(inner)), quotas_(quotas) {}
  // A handler that lets go of its exchange will not answer any more.
  ~MeteredExchange() override { leave(); }

  MeteredExchange(const MeteredExchange&) = delete;
  MeteredExchange& operator=(const MeteredExchange&) = delete;

  const HttpRequest& request() const override { return inner_->request(); }
  // A client that has its answer may ask again at once.
  void respond(HttpResponse response) override {
    add_standing(response, quotas_, request().caller);
    leave();
    inner_->respond(std::move(response));
  }
  void start_stream(HttpResponse head) override {
    add_standing(head, quotas_, request().caller);
    inner_->start_stream(std::move(head));
  }
  void write(std::string_view piece) override { inner_->write(piece); }
  void finish() override {
    leave();
    inner_->finish();
  }
  std::size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  void on_disconnect(std::function<void()> gone) override {
    inner_->on_disconnect(std::move(gone));
  }
  bool gone() const override { return inner_->gone(); }
  std::shared_ptr<RequestObserver> observer() const override { return inner_->observer(); }

 private:
  void leave() {
    if (!left_.exchange(true)) quotas_.leave(request().caller);
  }

  std::shared_ptr<Exchange> inner_;
  KeyQuotas& quotas_;
  std::atomic<bool> left_ = false;
};

HttpResponse refused(const QuotaRefusal& refusal) {
  HttpResponse response = http_error(429, refusal.message, "rate_limit_exceeded");
  response.headers.push_back({"Retry-After", std::to_string(refusal.retry_after_s)});
  return response;
}

}  // namespace

std::vector<Route> metered_routes(std::vector<Route> routes, KeyQuotas& quotas) {
  if (!quotas.any()) return routes;
  for (Route& route : routes) {
    if (!route.metered) continue;
    route.handler = [&quotas,
                     handler = std::move(route.handler)](std::shared_ptr<Exchange> exchange) {
      const std::string& caller = exchange->request().caller;
      if (const auto refusal = quotas.enter(caller, KeyQuotas::Clock::now())) {
        HttpResponse response = refused(*refusal);
        add_standing(response, quotas, caller);
        return exchange->respond(std::move(response));
      }
      handler(std::make_shared<MeteredExchange>(std::move(exchange), quotas));
    };
  }
  return routes;
}

}  // namespace quire
