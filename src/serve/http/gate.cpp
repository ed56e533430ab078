#include "serve/http/gate.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/http/field_text.h"
#include "serve/http/http_error.h"

namespace quire {
namespace {

Admission refuse(HttpResponse response, std::vector<HttpHeader> cors_headers = {}) {
  Admission admission;
  admission.refusal = std::move(response);
  admission.cors_headers = std::move(cors_headers);
  return admission;
}

// The headers that a page's client asks to send (OpenAI's sends a dozen x-stainless-... ones) are
// granted as they are: whether the page may call was decided by its origin.
std::string granted_headers(const HttpRequest& request) {
  constexpr std::size_t kMaxBytes = 2048;
  const std::string* asked = request.header("Access-Control-Request-Headers");
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  };
  if (asked != nullptr && !asked->empty() && asked->size() <= kMaxBytes &&
      std::ranges::all_of(*asked, plain)) {
    return *asked;
  }
  return "Authorization, Content-Type, X-Api-Key, X-Request-Id, traceparent, tracestate";
}

HttpResponse unknown_route(const HttpRequest& request, const Router& router) {
  std::string message = fmt::format("there is no {} on this server", shown(request.path));
  if (const auto near = router.nearest_to(request.path)) {
    message += fmt::format("; did you mean {}?", *near);
  }
  return http_error(404, message, "unknown_url");
}

HttpResponse preflight_answer(const HttpRequest& request, const std::vector<std::string>& methods) {
  return {.status = 204,
          .content_type = "",
          .headers = {{"Access-Control-Allow-Methods", fmt::format("{}", fmt::join(methods, ", "))},
                      {"Access-Control-Allow-Headers", granted_headers(request)},
                      {"Access-Control-Max-Age", "600"}},
          .body = ""};
}

// A form or plain text can be sent to us by any web page; these two cannot without our consent.
bool content_type_accepted(const HttpRequest& request, const Route& route) {
  const std::string* type = request.header("Content-Type");
  if (type == nullptr) return false;
  const std::string_view kind = std::string_view(*type).substr(0, type->find(';'));
  std::string lower(kind.substr(0, kind.find_last_not_of(' ') + 1));
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return lower == route.content_type;
}

// Bodies are accepted as they are: what one of a few bytes unpacks to has no bound that could be
// known.
bool content_coded(const HttpRequest& request) {
  return std::ranges::any_of(request.headers, [](const HttpHeader& header) {
    return equal_ignoring_case(header.name, "Content-Encoding") &&
           std::ranges::any_of(split_members(header.value), [](std::string_view coding) {
             return !equal_ignoring_case(coding, "identity");
           });
  });
}

}  // namespace

Admission admit(const HttpRequest& request, bool has_body, const Router& router,
                const AccessPolicy& access) {
  if (!access.host_allowed(request)) {
    return refuse(http_error(403,
                             "the Host header names a host that this server does not serve; "
                             "name it with --allowed-hosts",
                             "host_not_allowed"));
  }
  const auto origin = access.classify_origin(request);
  if (origin == AccessPolicy::Origin::kForeign) {
    return refuse(http_error(403,
                             "requests from this Origin are not allowed; name it with "
                             "--allowed-origins",
                             "origin_not_allowed"));
  }
  std::vector<HttpHeader> cors;
  if (origin == AccessPolicy::Origin::kAllowed) {
    cors = {{"Access-Control-Allow-Origin", *request.header("Origin")},
            {"Access-Control-Expose-Headers",
             "X-Request-Id, X-Ignored-Fields, Retry-After, traceresponse, "
             "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
             "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
             "x-ratelimit-reset-tokens"},
            {"Vary", "Origin"}};
  }
  Router::Match match = router.match(request.method, request.path);
  if (match.route == nullptr && match.allowed_methods.empty()) {
    return refuse(unknown_route(request, router), std::move(cors));
  }
  if (match.route == nullptr) {
    if (request.method == "OPTIONS" && origin == AccessPolicy::Origin::kAllowed) {
      return refuse(preflight_answer(request, match.allowed_methods), std::move(cors));
    }
    HttpResponse response =
        http_error(405, fmt::format("{} does not take this method", shown(request.path)));
    response.headers.push_back(
        {"Allow", fmt::format("{}", fmt::join(match.allowed_methods, ", "))});
    return refuse(std::move(response), std::move(cors));
  }
  auto caller = access.caller_of(request);
  if (match.route->access == RouteAccess::kKey && !caller) {
    HttpResponse response =
        http_error(401,
                   "this server needs an API key: send it as \"Authorization: Bearer KEY\" or "
                   "\"X-Api-Key: KEY\"",
                   "invalid_api_key");
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
    return refuse(std::move(response), std::move(cors));
  }
  if (has_body && request.method == "POST" && !content_type_accepted(request, *match.route)) {
    return refuse(
        http_error(415, fmt::format("Content-Type has to be {}", match.route->content_type)),
        std::move(cors));
  }
  if (has_body && content_coded(request)) {
    HttpResponse response =
        http_error(415, "Content-Encoding has to be identity: send the body uncompressed");
    response.headers.push_back({"Accept-Encoding", "identity"});
    return refuse(std::move(response), std::move(cors));
  }
  Admission admission;
  admission.route = match.route;
  admission.cors_headers = std::move(cors);
  admission.path_params = std::move(match.path_params);
  admission.caller = std::move(caller).value_or("");
  return admission;
}

bool valid_request_id(std::string_view id) {
  constexpr std::size_t kMaxBytes = 128;
  return !id.empty() && id.size() <= kMaxBytes && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  });
}

}  // namespace quire
