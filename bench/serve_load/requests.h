// The requests that the load's clients send.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve_load/step_trace.h"

namespace quire::load {

struct CompletionShape {
  std::int32_t key = 0;  // of StepTrace; also makes prompts differ
  std::size_t prompt_tokens = 8;
  std::int64_t max_tokens = 16;
  bool stream = true;
  // Each token has an event of its own, also one that completes no character.
  bool every_token = false;
};

inline std::string get_request(std::string_view path) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
}

inline std::string post_request(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      path, body.size(), body);
}

inline std::string delete_request(std::string_view path) {
  return fmt::format("DELETE {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
}

inline std::string completion_body(const CompletionShape& shape) {
  return fmt::format(R"({{"prompt":[{}],"max_tokens":{},"temperature":0,"ignore_eos":true)"
                     R"(,"stream":{}{}{}}})",
                     fmt::join(StepTrace::prompt_of(shape.key, shape.prompt_tokens), ","),
                     shape.max_tokens, shape.stream,
                     shape.stream ? R"(,"stream_options":{"include_usage":true})" : "",
                     shape.every_token ? R"(,"return_token_ids":true)" : "");
}

inline std::string completion_request(const CompletionShape& shape) {
  return post_request("/v1/completions", completion_body(shape));
}

}  // namespace quire::load
