#include "serve/protocols/openai/fill_in_middle.h"

#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace quire {
namespace {

struct FillTokens {
  TokenId prefix = 0;
  TokenId suffix = 0;
  TokenId middle = 0;
};

std::optional<FillTokens> find_fill_tokens(const Tokenizer& tokenizer) {
  static constexpr std::array<std::array<std::string_view, 3>, 4> kNames = {
      {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
       {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
       {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
       {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"}}};
  for (const auto& [prefix, suffix, middle] : kNames) {
    const auto first = tokenizer.find(prefix);
    const auto second = tokenizer.find(suffix);
    const auto third = tokenizer.find(middle);
    if (first && second && third) return FillTokens{*first, *second, *third};
  }
  return std::nullopt;
}

Status append_text(std::vector<TokenId>& ids, const FillText& text, const Engine& engine,
                   const ClientGone& gone) {
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      engine.tokenizer().encode(text.text, {.add_special_tokens = false, .parse_special = false},
                                prompt_limits(engine, /*room=*/1, text.field, gone)));
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  return {};
}

}  // namespace

Result<std::vector<TokenId>> fill_in_middle_prompt(const Engine& engine, const FillText& before,
                                                   const FillText& after, const FillText& started,
                                                   const ClientGone& gone) {
  const Tokenizer& tokenizer = engine.tokenizer();
  const auto tokens = find_fill_tokens(tokenizer);
  if (!tokens) {
    return Status::unimplemented(
        fmt::format("{}: the model {} has no tokens for filling in the middle", after.field,
                    engine.info().model_name),
        "serve a model for code that has them");
  }
  std::vector<TokenId> ids;
  if (tokenizer.adds_bos() && tokenizer.bos_id()) ids.push_back(*tokenizer.bos_id());
  ids.push_back(tokens->prefix);
  QUIRE_RETURN_IF_ERROR(append_text(ids, before, engine, gone));
  ids.push_back(tokens->suffix);
  QUIRE_RETURN_IF_ERROR(append_text(ids, after, engine, gone));
  ids.push_back(tokens->middle);
  QUIRE_RETURN_IF_ERROR(append_text(ids, started, engine, gone));
  return ids;
}

}  // namespace quire
