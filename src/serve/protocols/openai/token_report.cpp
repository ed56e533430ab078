#include "serve/protocols/openai/token_report.h"

#include <algorithm>

namespace quire {
namespace {

json::array bytes_of(const Tokenizer& tokenizer, TokenId id) {
  json::array bytes;
  for (const char c : tokenizer.token_bytes(id)) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

json::object chat_token(const Tokenizer& tokenizer, const TokenLogprob& token) {
  return {{"token", token_string(tokenizer, token.token_id)},
          {"logprob", json_logprob(token.logprob)},
          {"bytes", bytes_of(tokenizer, token.token_id)}};
}

json::object ranked_token(const Tokenizer& tokenizer, const TokenLogprob& token) {
  return {{"logprob", json_logprob(token.logprob)},
          {"rank", token.rank},
          {"decoded_token", token_string(tokenizer, token.token_id)}};
}

}  // namespace

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

json::object TokenUsage::to_json() const {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
}

std::string token_string(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  const bool ascii =
      std::ranges::all_of(bytes, [](char c) { return static_cast<signed char>(c) >= 0; });
  if (ascii && !bytes.empty()) return std::string(bytes);
  return tokenizer.decode({&id, 1}, /*skip_special_tokens=*/false);
}

double json_logprob(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

json::object chat_logprobs(const Tokenizer& tokenizer,
                           std::span<const PositionLogprobs> positions) {
  json::array content;
  for (const PositionLogprobs& position : positions) {
    json::object entry = chat_token(tokenizer, position.token);
    json::array top;
    for (const TokenLogprob& each : position.top) top.push_back(chat_token(tokenizer, each));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json::object completion_logprobs(const Tokenizer& tokenizer,
                                 std::span<const PositionLogprobs> positions, std::int64_t offset,
                                 const TokenId* first) {
  json::array tokens;
  json::array logprobs;
  json::array tops;
  json::array offsets;
  const auto add = [&](TokenId id, json::value logprob, json::value top) {
    std::string text = token_string(tokenizer, id);
    offsets.push_back(offset);
    offset += count_characters(text);
    tokens.push_back(json::value(std::move(text)));
    logprobs.push_back(std::move(logprob));
    tops.push_back(std::move(top));
  };
  if (first != nullptr) add(*first, nullptr, nullptr);
  for (const PositionLogprobs& position : positions) {
    json::object top;
    for (const TokenLogprob& each : position.top) {
      top[token_string(tokenizer, each.token_id)] = json_logprob(each.logprob);
    }
    // vLLM's clients find the token itself among its alternatives.
    top[token_string(tokenizer, position.token.token_id)] = json_logprob(position.token.logprob);
    add(position.token.token_id, json_logprob(position.token.logprob), std::move(top));
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(tokens)},
          {"top_logprobs", std::move(tops)}};
}

json::array prompt_logprob_report(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                                  std::span<const PositionLogprobs> positions) {
  json::array report;
  if (!prompt.empty()) report.push_back(nullptr);
  for (const PositionLogprobs& position : positions) {
    json::object entry;
    entry[std::to_string(position.token.token_id)] = ranked_token(tokenizer, position.token);
    for (const TokenLogprob& each : position.top) {
      entry[std::to_string(each.token_id)] = ranked_token(tokenizer, each);
    }
    report.push_back(std::move(entry));
  }
  return report;
}

}  // namespace quire
