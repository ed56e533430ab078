#include "serve/protocols/openai/responses.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/response_answer.h"
#include "serve/protocols/openai/response_background.h"
#include "serve/protocols/openai/response_replay.h"
#include "serve/protocols/openai/response_request.h"

namespace quire {
namespace {

constexpr std::size_t kDefaultItems = 20;
constexpr std::size_t kMaxListedItems = 100;

// Where responses are: those that have ended, and those that run in the background.
struct Responses {
  std::shared_ptr<ResponseStore> store;
  std::shared_ptr<BackgroundResponses> live;
};

void create_response(Service& service, const Responses& responses,
                     std::shared_ptr<Exchange> exchange) {
  auto job = parse_response_request(exchange->request().body, service, *responses.store,
                                    [exchange = exchange.get()] { return exchange->gone(); });
  if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(*exchange, *error);
  answer_response(std::move(exchange), responses.store, responses.live,
                  std::get<ResponseJob>(std::move(job)));
}

ApiError wrong_parameter(std::string message, std::string param) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError not_found(std::string_view id) {
  ApiError error = wrong_parameter(
      fmt::format("Response with id '{}' not found.", id.substr(0, 100)), "response_id");
  error.status = 404;
  error.type = "not_found_error";
  return error;
}

// The response that the path names; null, and the exchange is answered, if there is none.
std::shared_ptr<const StoredResponse> find_or_answer(ResponseStore& store, Exchange& exchange) {
  const std::string_view id = exchange.request().path_param("id");
  auto found = store.find(id);
  if (found == nullptr) respond_error(exchange, not_found(id));
  return found;
}

// The number of the last event that the client has; nothing where it has none. An error where it is
// no number.
std::variant<std::optional<std::int64_t>, ApiError> read_starting_after(
    const HttpRequest& request) {
  const std::string* text = request.query_param("starting_after");
  if (text == nullptr) return std::optional<std::int64_t>();
  std::int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto [rest, code] = std::from_chars(text->data(), end, number);
  if (code != std::errc() || rest != end || number < 0) {
    return wrong_parameter("starting_after: expected the sequence_number of an event",
                           "starting_after");
  }
  return std::optional(number);
}

ApiError too_many_events(std::uint64_t max_bytes) {
  return wrong_parameter(
      fmt::format("stream: the events of this response are more than the {} bytes that are kept of "
                  "one in the background, or than --max-unsent-bytes {}; ask for it whole",
                  BackgroundResponse::kMaxEventBytes, max_bytes),
      "stream");
}

void stream_response(const StoredResponse& stored, std::uint64_t max_bytes, Exchange& exchange) {
  const auto after = read_starting_after(exchange.request());
  if (const auto* error = std::get_if<ApiError>(&after)) return respond_error(exchange, *error);
  if (!stored.events_kept) return respond_error(exchange, too_many_events(max_bytes));
  std::string made;
  if (stored.events.empty()) {
    const auto response = parse_json(stored.response, "store");
    if (!response.ok()) return respond_error(exchange, to_api_error(response.status()));
    made = replay_events(response->get_object());
  }
  const std::string_view events = events_after(stored.events.empty() ? made : stored.events,
                                               std::get<std::optional<std::int64_t>>(after));
  if (events.size() > max_bytes) return respond_error(exchange, too_many_events(max_bytes));
  exchange.start_stream({.content_type = "text/event-stream; charset=utf-8",
                         .headers = {{"Cache-Control", "no-cache"}},
                         .body = ""});
  exchange.write(events);
  exchange.finish();
}

void show_live(BackgroundResponse& response, bool stream, std::uint64_t max_bytes,
               const std::shared_ptr<Exchange>& exchange) {
  if (!stream) return exchange->respond({.headers = {}, .body = response.snapshot()});
  const auto after = read_starting_after(exchange->request());
  if (const auto* error = std::get_if<ApiError>(&after)) return respond_error(*exchange, *error);
  if (!response.follow(exchange, std::get<std::optional<std::int64_t>>(after), max_bytes)) {
    respond_error(*exchange, too_many_events(max_bytes));
  }
}

void show_response(const Service& service, const Responses& responses,
                   const std::shared_ptr<Exchange>& shared) {
  Exchange& exchange = *shared;
  const std::string* flag = exchange.request().query_param("stream");
  const bool stream = flag != nullptr && *flag != "false";
  const std::uint64_t max_bytes = service.config().max_unsent_bytes;
  if (const auto live = responses.live->find(exchange.request().path_param("id"))) {
    return show_live(*live, stream, max_bytes, shared);
  }
  const auto found = find_or_answer(*responses.store, exchange);
  if (found == nullptr) return;
  if (stream) return stream_response(*found, max_bytes, exchange);
  exchange.respond({.headers = {}, .body = found->response});
}

// What a request's input comes to, without running it.
void count_input_tokens(const Service& service, ResponseStore& store, Exchange& exchange) {
  const auto job = parse_response_request(exchange.request().body, service, store,
                                          [&exchange] { return exchange.gone(); });
  if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(exchange, *error);
  const json::object answer = {
      {"object", "response.input_tokens"},
      {"input_tokens", std::get<ResponseJob>(job).prompt_token_ids.size()}};
  exchange.respond({.headers = {}, .body = json::serialize(answer)});
}

// One that runs is aborted.
void delete_response(const Responses& responses, Exchange& exchange) {
  const std::string_view id = exchange.request().path_param("id");
  const auto live = responses.live->find(id);
  if (live != nullptr) live->cancel(/*forget=*/true);
  const bool stored = responses.store->erase(id);
  if (live == nullptr && !stored) return respond_error(exchange, not_found(id));
  const json::object answer = {{"id", id}, {"object", "response"}, {"deleted", true}};
  exchange.respond({.headers = {}, .body = json::serialize(answer)});
}

// Only a response in the background can be cancelled; one that has ended stays as it is.
void cancel_response(const Responses& responses, Exchange& exchange) {
  const auto live = responses.live->find(exchange.request().path_param("id"));
  if (live != nullptr) live->cancel(/*forget=*/false);
  const auto found = find_or_answer(*responses.store, exchange);
  if (found == nullptr) return;
  const auto response = parse_json(found->response, "store");
  if (!response.ok()) return respond_error(exchange, to_api_error(response.status()));
  if (!response->at("background").as_bool()) {
    return respond_error(exchange,
                         wrong_parameter("Cannot cancel a synchronous response.", "response_id"));
  }
  exchange.respond({.headers = {}, .body = found->response});
}

struct Page {
  std::size_t limit = kDefaultItems;
  bool ascending = false;
  std::string_view after;  // the id before the page's first; empty: from the start
};

std::variant<Page, ApiError> read_page(const HttpRequest& request) {
  Page page;
  if (const std::string* limit = request.query_param("limit")) {
    const char* end = limit->data() + limit->size();
    const auto [rest, code] = std::from_chars(limit->data(), end, page.limit);
    if (code != std::errc() || rest != end || page.limit < 1 || page.limit > kMaxListedItems) {
      return wrong_parameter(fmt::format("limit: expected a number from 1 to {}", kMaxListedItems),
                             "limit");
    }
  }
  if (const std::string* order = request.query_param("order")) {
    if (*order != "asc" && *order != "desc") {
      return wrong_parameter("order: expected \"asc\" or \"desc\"", "order");
    }
    page.ascending = *order == "asc";
  }
  if (const std::string* after = request.query_param("after")) page.after = *after;
  return page;
}

json::string id_of(const json::value& item) { return item.at("id").as_string(); }

void list_input_items(const Responses& responses, Exchange& exchange) {
  const auto page = read_page(exchange.request());
  if (const auto* error = std::get_if<ApiError>(&page)) return respond_error(exchange, *error);
  const auto& [limit, ascending, after] = std::get<Page>(page);
  const auto live = responses.live->find(exchange.request().path_param("id"));
  const auto found = live != nullptr ? live->kept() : find_or_answer(*responses.store, exchange);
  if (found == nullptr) return;
  auto parsed = parse_json(found->input_items, "store");
  if (!parsed.ok()) return respond_error(exchange, to_api_error(parsed.status()));
  json::array& items = parsed->as_array();
  if (!ascending) std::ranges::reverse(items);
  auto first = items.begin();
  if (!after.empty()) {
    const json::string wanted(after);  // lambdas of clang 14 capture no structured binding
    first =
        std::ranges::find_if(items, [&](const json::value& item) { return id_of(item) == wanted; });
    if (first == items.end()) {
      return respond_error(exchange, wrong_parameter("after: there is no such item", "after"));
    }
    ++first;
  }
  const auto last = first + std::min(items.end() - first, static_cast<std::ptrdiff_t>(limit));
  const json::array data(first, last);
  const json::object answer = {{"object", "list"},
                               {"data", data},
                               {"first_id", data.empty() ? json::string() : id_of(data.front())},
                               {"last_id", data.empty() ? json::string() : id_of(data.back())},
                               {"has_more", last != items.end()}};
  exchange.respond({.headers = {}, .body = json::serialize(answer)});
}

}  // namespace

std::vector<Route> response_routes(Service& service, std::shared_ptr<ResponseStore> store) {
  const Responses responses{std::move(store), std::make_shared<BackgroundResponses>()};
  const auto by_id = [responses](void (*handle)(const Responses&, Exchange&)) {
    return [responses, handle](const std::shared_ptr<Exchange>& exchange) {
      handle(responses, *exchange);
    };
  };
  std::vector<Route> routes;
  routes.push_back({.method = "POST",
                    .pattern = "/v1/responses",
                    .handler =
                        [&service, responses](std::shared_ptr<Exchange> exchange) {
                          create_response(service, responses, std::move(exchange));
                        },
                    .metered = true});
  routes.push_back({.method = "POST",
                    .pattern = "/v1/responses/input_tokens",
                    .handler = [&service, responses](const std::shared_ptr<Exchange>& exchange) {
                      count_input_tokens(service, *responses.store, *exchange);
                    }});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/responses/{id}",
                    .handler = [&service, responses](const std::shared_ptr<Exchange>& exchange) {
                      show_response(service, responses, exchange);
                    }});
  routes.push_back(
      {.method = "DELETE", .pattern = "/v1/responses/{id}", .handler = by_id(delete_response)});
  routes.push_back({.method = "POST",
                    .pattern = "/v1/responses/{id}/cancel",
                    .handler = by_id(cancel_response)});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/responses/{id}/input_items",
                    .handler = by_id(list_input_items)});
  return routes;
}

}  // namespace quire
