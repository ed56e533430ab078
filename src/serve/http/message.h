// Requests and responses of HTTP/1.1 as plain values. Nothing here knows sockets: the protocols are
// written against this and exchange.h, and tested without a network.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // percent-decoded, without the query; starts with '/'
  // Percent-decoded names and values in order, '+' read as a space.
  std::vector<std::pair<std::string, std::string>> query;
  std::vector<HttpHeader> headers;
  std::string body;
  // What the route's pattern names: {"id", "batch_1"} for "/v1/batches/{id}".
  std::vector<std::pair<std::string, std::string>> path_params;
  std::string caller = {};  // by its key, see AccessPolicy::caller_of(); empty: anybody
  std::string request_id;   // the client's X-Request-Id where it is well formed, else one of ours
  // When its last byte came; nothing for a request that did not come over a connection.
  std::optional<std::chrono::steady_clock::time_point> received = {};

  // The first header of that name (in any case); nullptr if there is none.
  const std::string* header(std::string_view name) const;
  // All of that name, in order.
  std::vector<const std::string*> all_headers(std::string_view name) const;
  const std::string* query_param(std::string_view name) const;
  // Empty if the route's pattern has no such name.
  std::string_view path_param(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers = {};  // besides those that the server sets itself
  std::string body = {};
};

// "Not Found" and so on; "Unknown" for a number without a name.
std::string_view http_reason(int status);

}  // namespace quire
