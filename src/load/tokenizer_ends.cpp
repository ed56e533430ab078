#include "load/tokenizer_ends.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

// An id or a list of ids under `key`, below `size`; none if the file or the key is absent.
Result<std::vector<TokenId>> ids_of(const json::object* config, std::string_view file,
                                    std::string_view key, std::size_t size) {
  std::vector<TokenId> ids;
  if (config == nullptr) return ids;
  const JsonReader reader(*config, std::string(file));
  const json::value* value = reader.find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const json::value& item) {
    const std::int64_t* id = item.if_int64();
    const bool valid = id != nullptr && *id >= 0 && std::cmp_less(*id, size);
    if (valid) ids.push_back(static_cast<TokenId>(*id));
    return valid;
  };
  const std::string expected = fmt::format("an id, or a list of ids, below {}", size);
  if (!value->is_array()) {
    if (!add(*value)) return reader.type_error(key, expected);
    return ids;
  }
  for (const json::value& item : value->get_array()) {
    if (!add(item)) return reader.type_error(key, expected);
  }
  return ids;
}

// A token that tokenizer_config.json names: as a string, or as an object with its content.
Result<std::optional<TokenId>> named_token(const JsonReader& tokenizer_config, std::string_view key,
                                           const VocabData& data) {
  const json::value* value = tokenizer_config.find(key);
  if (value == nullptr) return std::optional<TokenId>();
  if (value->is_object()) value = value->get_object().if_contains("content");
  if (value == nullptr || !value->is_string()) {
    return tokenizer_config.type_error(key, "a string, or an object with a string \"content\"");
  }
  const std::string_view text = value->get_string();
  const auto found = std::ranges::find(data.tokens, text);
  if (text.empty() || found == data.tokens.end()) {
    return Status::bad_model(
        fmt::format("{}: {}: \"{}\" is no token", tokenizer_config.where(), key, printable(text)));
  }
  return std::optional<TokenId>(static_cast<TokenId>(found - data.tokens.begin()));
}

Status no_such_end(std::string_view key, std::string_view what) {
  return Status::bad_model(fmt::format("tokenizer_config.json: {}: no token is {}", key, what));
}

}  // namespace

Status read_tokenizer_ends(const AddedEnds& ends, const TokenizerConfigs& configs,
                           VocabData& data) {
  const json::object none;
  const JsonReader config(configs.tokenizer_config == nullptr ? none : *configs.tokenizer_config,
                          "tokenizer_config.json");
  const std::size_t size = data.tokens.size();
  QUIRE_ASSIGN_OR_RETURN(const auto bos_token, named_token(config, "bos_token", data));
  QUIRE_ASSIGN_OR_RETURN(const auto eos_token, named_token(config, "eos_token", data));
  QUIRE_ASSIGN_OR_RETURN(const auto model_bos,
                         ids_of(configs.model_config, "config.json", "bos_token_id", size));
  QUIRE_ASSIGN_OR_RETURN(const auto add_bos, config.find_bool("add_bos_token"));
  QUIRE_ASSIGN_OR_RETURN(const auto add_eos, config.find_bool("add_eos_token"));

  if (bos_token) data.bos_id = bos_token;
  if (!ends.before.empty()) data.bos_id = ends.before.front();
  if (!data.bos_id && !model_bos.empty()) data.bos_id = model_bos.front();
  data.prefix_ids = ends.before;
  data.suffix_ids = ends.after;
  if (add_bos == false) {
    data.prefix_ids.clear();
  } else if (add_bos == true && data.prefix_ids.empty()) {
    if (!data.bos_id) return no_such_end("add_bos_token", "BOS");
    data.prefix_ids.push_back(*data.bos_id);
  }

  if (add_eos == false) data.suffix_ids.clear();

  std::vector<TokenId> eos;
  if (!data.suffix_ids.empty()) eos.push_back(data.suffix_ids.back());
  for (const auto& [file, object] : {std::pair("generation_config.json", configs.generation_config),
                                     std::pair("config.json", configs.model_config)}) {
    QUIRE_ASSIGN_OR_RETURN(const auto ids, ids_of(object, file, "eos_token_id", size));
    eos.insert(eos.end(), ids.begin(), ids.end());
  }
  if (eos_token) eos.push_back(*eos_token);
  eos.insert(eos.end(), data.eos_ids.begin(), data.eos_ids.end());
  if (add_eos == true && data.suffix_ids.empty()) {
    if (eos.empty()) return no_such_end("add_eos_token", "EOS");
    data.suffix_ids.push_back(eos_token.value_or(eos.front()));
  }
  data.eos_ids.clear();
  for (const TokenId id : eos) {
    if (std::ranges::find(data.eos_ids, id) == data.eos_ids.end()) data.eos_ids.push_back(id);
  }
  return {};
}

Status add_token(const AddedToken& token, std::string_view where, VocabData& data) {
  const auto id = static_cast<std::size_t>(token.id);
  if (token.content.empty()) return Status::bad_model(fmt::format("{}: an empty token", where));
  if (id >= data.tokens.size()) {
    data.num_unused_ids += id - data.tokens.size();
    if (data.num_unused_ids > kMaxUnusedIds) {
      return Status::bad_model(
          fmt::format("{}: the id {} is far beyond the {} tokens", where, id, data.tokens.size()));
    }
    data.tokens.resize(id + 1);
    data.kinds.resize(id + 1, TokenKind::kUnused);
    if (!data.scores.empty()) data.scores.resize(id + 1, 0);
    if (!data.piece_scores.empty()) data.piece_scores.resize(id + 1, 0);
  }
  const bool is_new = data.tokens[id].empty();
  if (!is_new && data.tokens[id] != token.content) {
    return Status::bad_model(fmt::format("{}: two tokens have the id {}", where, id));
  }
  data.tokens[id] = token.content;
  if (token.special) {
    data.kinds[id] = TokenKind::kControl;
  } else if (is_new) {
    data.kinds[id] = TokenKind::kAdded;
  }
  std::erase_if(data.added_tokens, [&](const AddedToken& each) { return each.id == token.id; });
  data.added_tokens.push_back(token);
  return {};
}

Status read_added_tokens_decoder(const json::object* tokenizer_config, VocabData& data) {
  if (tokenizer_config == nullptr) return {};
  const JsonReader config(*tokenizer_config, "tokenizer_config.json");
  if (!config.contains("added_tokens_decoder")) return {};
  QUIRE_ASSIGN_OR_RETURN(const JsonReader decoder, config.get_object("added_tokens_decoder"));
  for (const auto& [key, value] : decoder.object()) {
    const std::string_view digits = key;
    AddedToken token;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), token.id);
    if (error != std::errc() || end != digits.data() + digits.size() || token.id < 0 ||
        !value.is_object()) {
      return decoder.type_error(printable(digits), "an id with an object");
    }
    const JsonReader json(value.get_object(), decoder.where());
    QUIRE_ASSIGN_OR_RETURN(token.content, json.get_string("content"));
    QUIRE_ASSIGN_OR_RETURN(const auto special, json.find_bool("special"));
    QUIRE_ASSIGN_OR_RETURN(const auto lstrip, json.find_bool("lstrip"));
    QUIRE_ASSIGN_OR_RETURN(const auto rstrip, json.find_bool("rstrip"));
    QUIRE_ASSIGN_OR_RETURN(const auto single_word, json.find_bool("single_word"));
    QUIRE_ASSIGN_OR_RETURN(const auto normalized, json.find_bool("normalized"));
    token.special = special.value_or(false);
    token.lstrip = lstrip.value_or(false);
    token.rstrip = rstrip.value_or(false);
    token.single_word = single_word.value_or(false);
    token.normalized = normalized.value_or(!token.special);
    QUIRE_RETURN_IF_ERROR(add_token(token, "tokenizer_config.json: added_tokens_decoder", data));
  }
  return {};
}

}  // namespace quire
