#include "serve/protocols/openai/responses.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/response_answer.h"
#include "serve/protocols/openai/response_replay.h"
#include "serve/protocols/openai/response_request.h"

namespace quire {
namespace {

constexpr std::size_t kDefaultItems = 20;
constexpr std::size_t kMaxListedItems = 100;

void create_response(Service& service, const std::shared_ptr<ResponseStore>& store,
                     std::shared_ptr<Exchange> exchange) {
  auto job = parse_response_request(exchange->request().body, service, *store,
                                    [exchange = exchange.get()] { return exchange->gone(); });
  if (const auto* error = std::get_if<ApiError>(&job)) return respond_error(*exchange, *error);
  answer_response(std::move(exchange), store, std::get<ResponseJob>(std::move(job)));
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

void stream_response(const StoredResponse& stored, std::uint64_t max_bytes, Exchange& exchange) {
  if (exchange.request().query_param("starting_after") != nullptr) {
    ApiError error = wrong_parameter(
        "starting_after: this feature is not supported by this server; a stored response streams "
        "from its start",
        "starting_after");
    error.code = "unsupported_parameter";
    return respond_error(exchange, error);
  }
  const auto response = parse_json(stored.response, "store");
  if (!response.ok()) return respond_error(exchange, to_api_error(response.status()));
  const std::string events = replay_events(response->get_object());
  if (events.size() > max_bytes) {
    return respond_error(
        exchange, wrong_parameter(fmt::format("stream: the events of this response are {} bytes, "
                                              "more than --max-unsent-bytes {}; ask for it whole",
                                              events.size(), max_bytes),
                                  "stream"));
  }
  exchange.start_stream({.content_type = "text/event-stream; charset=utf-8",
                         .headers = {{"Cache-Control", "no-cache"}},
                         .body = ""});
  exchange.write(events);
  exchange.finish();
}

void show_response(const Service& service, ResponseStore& store, Exchange& exchange) {
  const auto found = find_or_answer(store, exchange);
  if (found == nullptr) return;
  const std::string* stream = exchange.request().query_param("stream");
  if (stream != nullptr && *stream != "false") {
    return stream_response(*found, service.config().max_unsent_bytes, exchange);
  }
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

void delete_response(ResponseStore& store, Exchange& exchange) {
  const std::string_view id = exchange.request().path_param("id");
  if (!store.erase(id)) return respond_error(exchange, not_found(id));
  const json::object answer = {{"id", id}, {"object", "response"}, {"deleted", true}};
  exchange.respond({.headers = {}, .body = json::serialize(answer)});
}

// Only a response in the background can be cancelled, and there are none.
void cancel_response(ResponseStore& store, Exchange& exchange) {
  if (find_or_answer(store, exchange) == nullptr) return;
  respond_error(exchange, wrong_parameter("Cannot cancel a synchronous response.", "response_id"));
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

void list_input_items(ResponseStore& store, Exchange& exchange) {
  const auto page = read_page(exchange.request());
  if (const auto* error = std::get_if<ApiError>(&page)) return respond_error(exchange, *error);
  const auto& [limit, ascending, after] = std::get<Page>(page);
  const auto found = find_or_answer(store, exchange);
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
  const auto stored = [store](void (*handle)(ResponseStore&, Exchange&)) {
    return
        [store, handle](const std::shared_ptr<Exchange>& exchange) { handle(*store, *exchange); };
  };
  std::vector<Route> routes;
  routes.push_back({.method = "POST",
                    .pattern = "/v1/responses",
                    .handler = [&service, store](std::shared_ptr<Exchange> exchange) {
                      create_response(service, store, std::move(exchange));
                    }});
  routes.push_back({.method = "POST",
                    .pattern = "/v1/responses/input_tokens",
                    .handler = [&service, store](const std::shared_ptr<Exchange>& exchange) {
                      count_input_tokens(service, *store, *exchange);
                    }});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/responses/{id}",
                    .handler = [&service, store](const std::shared_ptr<Exchange>& exchange) {
                      show_response(service, *store, *exchange);
                    }});
  routes.push_back(
      {.method = "DELETE", .pattern = "/v1/responses/{id}", .handler = stored(delete_response)});
  routes.push_back({.method = "POST",
                    .pattern = "/v1/responses/{id}/cancel",
                    .handler = stored(cancel_response)});
  routes.push_back({.method = "GET",
                    .pattern = "/v1/responses/{id}/input_items",
                    .handler = stored(list_input_items)});
  return routes;
}

}  // namespace quire
