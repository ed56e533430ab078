#include "serve/protocols/openai/token_report.h"

#include <algorithm>
#include <utility>

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

json::object completion_top(const Tokenizer& tokenizer, const PositionLogprobs& position) {
  json::object top;
  for (const TokenLogprob& each : position.top) {
    top[token_string(tokenizer, each.token_id)] = json_logprob(each.logprob);
  }
  // vLLM's clients find the token itself among its alternatives.
  top[token_string(tokenizer, position.token.token_id)] = json_logprob(position.token.logprob);
  return top;
}

json::object prompt_top(const Tokenizer& tokenizer, const PositionLogprobs& position) {
  json::object top;
  top[std::to_string(position.token.token_id)] = ranked_token(tokenizer, position.token);
  for (const TokenLogprob& each : position.top) {
    top[std::to_string(each.token_id)] = ranked_token(tokenizer, each);
  }
  return top;
}

// Calls append(out, position), null for the first token, with commas between the calls.
template <typename Append>
void append_each(std::string& out, const CompletionPositions& positions, const Append& append) {
  bool any = false;
  const auto add = [&](const PositionLogprobs* position) {
    if (std::exchange(any, true)) out += ',';
    append(out, position);
  };
  if (positions.first != nullptr) add(nullptr);
  for (const PositionLogprobs& position : positions.prompt) add(&position);
  for (const PositionLogprobs& position : positions.output) add(&position);
}

}  // namespace

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

json::object TokenUsage::to_json() const {
  json::object usage = {{"prompt_tokens", prompt_tokens},
                        {"completion_tokens", completion_tokens},
                        {"total_tokens", prompt_tokens + completion_tokens},
                        {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
  if (accepted_drafts + rejected_drafts > 0) {
    usage["completion_tokens_details"] = {{"accepted_prediction_tokens", accepted_drafts},
                                          {"rejected_prediction_tokens", rejected_drafts}};
  }
  if (cost) usage["cost"] = *cost;
  return usage;
}

std::string token_string(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  const bool ascii =
      std::ranges::all_of(bytes, [](char c) { return static_cast<signed char>(c) >= 0; });
  if (ascii && !bytes.empty()) return std::string(bytes);
  return tokenizer.decode({&id, 1}, /*skip_special_tokens=*/false);
}

double json_logprob(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

void append_chat_tokens(std::string& out, const Tokenizer& tokenizer,
                        std::span<const PositionLogprobs> positions) {
  for (const PositionLogprobs& position : positions) {
    json::object entry = chat_token(tokenizer, position.token);
    json::array top;
    for (const TokenLogprob& each : position.top) top.push_back(chat_token(tokenizer, each));
    entry["top_logprobs"] = std::move(top);
    if (out.ends_with('}')) out += ',';
    out += json::serialize(entry);
  }
}

void append_chat_logprobs(std::string& out, const Tokenizer& tokenizer,
                          std::span<const PositionLogprobs> positions) {
  out += R"({"content":[)";
  append_chat_tokens(out, tokenizer, positions);
  out += R"(],"refusal":null})";
}

void append_completion_logprobs(std::string& out, const Tokenizer& tokenizer,
                                const CompletionPositions& positions, std::int64_t offset) {
  const auto token_text = [&](TokenId id) { return token_string(tokenizer, id); };
  out += R"({"text_offset":[)";
  append_each(out, positions, [&](std::string& to, const PositionLogprobs* at) {
    to += std::to_string(offset);
    offset += count_characters(token_text(at == nullptr ? *positions.first : at->token.token_id));
  });
  out += R"(],"token_logprobs":[)";
  append_each(out, positions, [&](std::string& to, const PositionLogprobs* at) {
    to += at == nullptr ? "null" : json::serialize(json::value(json_logprob(at->token.logprob)));
  });
  out += R"(],"tokens":[)";
  append_each(out, positions, [&](std::string& to, const PositionLogprobs* at) {
    const TokenId id = at == nullptr ? *positions.first : at->token.token_id;
    to += json::serialize(json::string_view(token_text(id)));
  });
  out += R"(],"top_logprobs":[)";
  append_each(out, positions, [&](std::string& to, const PositionLogprobs* at) {
    to += at == nullptr ? "null" : json::serialize(completion_top(tokenizer, *at));
  });
  out += "]}";
}

void append_prompt_logprobs(std::string& out, const Tokenizer& tokenizer,
                            std::span<const TokenId> prompt,
                            std::span<const PositionLogprobs> positions) {
  const CompletionPositions all = {
      .first = prompt.empty() ? nullptr : prompt.data(), .prompt = positions, .output = {}};
  out += '[';
  append_each(out, all, [&](std::string& to, const PositionLogprobs* at) {
    to += at == nullptr ? "null" : json::serialize(prompt_top(tokenizer, *at));
  });
  out += ']';
}

}  // namespace quire
