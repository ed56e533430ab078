// JSON over HTTP to one server, by libcurl, which stays behind this header.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

class HttpClient {
 public:
  // Called with each piece of an answer's body; an error ends the request and is its result.
  using OnBody = std::function<Status(std::string_view piece)>;

  // `base_url` is http://host:8000 or https://host/path/v1; whether or not it ends in /v1, requests
  // go below `root` there. `api_key` may be empty. kInvalidArgument for what is no such address or
  // key.
  static Result<HttpClient> create(std::string base_url, const std::string& api_key,
                                   std::string_view root = "/v1");

  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // GET of `path` ("/models", after the base), or POST of a JSON text where there is one. Gives up
  // on a server from which nothing comes for ten minutes.
  // Where the status is not 2xx, the error carries the server's own message: kInvalidArgument 4xx,
  // kNotFound 404, kUnavailable 429 and 5xx, or no answer at all. kCancelled after a stop.
  Status request(const std::string& path, const std::optional<std::string>& json,
                 const OnBody& on_body, std::stop_token stop);

  const std::string& base_url() const;

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
