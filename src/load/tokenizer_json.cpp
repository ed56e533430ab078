#include "load/tokenizer_json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "load/tokenizer_ends.h"
#include "load/tokenizer_json_pipeline.h"
#include "text/byte_alphabet.h"

namespace quire {

namespace {

class JsonVocabReader {
 public:
  explicit JsonVocabReader(JsonReader root) : root_(std::move(root)) {}

  Result<VocabData> read(const json::object* tokenizer_config,
                         const json::object* generation_config, const json::object* model_config) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader model, root_.get_object("model"));
    QUIRE_RETURN_IF_ERROR(check_model(model));
    QUIRE_RETURN_IF_ERROR(read_tokenizer_pipeline(root_, data_));
    QUIRE_RETURN_IF_ERROR(read_vocab(model));
    QUIRE_RETURN_IF_ERROR(read_added_tokens());
    if (data_.model == WordModel::kBpe) QUIRE_RETURN_IF_ERROR(read_merges(model));
    QUIRE_RETURN_IF_ERROR(read_unknown(model));
    QUIRE_ASSIGN_OR_RETURN(const AddedEnds ends, read_post_processor(root_));
    QUIRE_RETURN_IF_ERROR(
        read_tokenizer_ends(ends, {tokenizer_config, generation_config, model_config}, data_));
    return std::move(data_);
  }

 private:
  struct Entry {
    std::string_view token;
    std::size_t id = 0;
  };

  Status bad(std::string_view key, std::string_view what) const {
    return Status::bad_model(fmt::format("{}: {}: {}", root_.where(), key, what));
  }
  Status unsupported(std::string_view what) const {
    return Status::unimplemented(fmt::format("{}: {} is not supported", root_.where(), what));
  }

  Status check_model(const JsonReader& model);
  Result<std::size_t> read_id(std::string_view key, const json::value& value) const;
  Status set_token(std::string_view key, std::size_t id, std::string_view text);
  Result<std::vector<Entry>> read_entries(const JsonReader& model);
  Status read_vocab(const JsonReader& model);
  Status read_added_tokens();
  Status read_merges(const JsonReader& model);
  Status read_unknown(const JsonReader& model);

  JsonReader root_;
  VocabData data_;
};

Status JsonVocabReader::check_model(const JsonReader& model) {
  constexpr std::pair<std::string_view, WordModel> kTypes[] = {
      {"BPE", WordModel::kBpe},
      {"Unigram", WordModel::kUnigram},
      {"WordPiece", WordModel::kWordPiece},
      {"WordLevel", WordModel::kWordLevel}};
  QUIRE_ASSIGN_OR_RETURN(const auto said, model.find_string("type"));
  // Files older than the key have merges in a BPE model and in no other.
  const std::string type = said.value_or(model.contains("merges") ? "BPE" : "none");
  const auto known =
      std::ranges::find(kTypes, type, &std::pair<std::string_view, WordModel>::first);
  if (known == std::end(kTypes)) return unsupported(fmt::format("model: type {}", printable(type)));
  data_.model = known->second;
  QUIRE_ASSIGN_OR_RETURN(const auto dropout, model.find_double("dropout"));
  if (dropout.value_or(0) != 0) return unsupported("model: dropout");
  QUIRE_ASSIGN_OR_RETURN(const auto prefix, model.find_string("continuing_subword_prefix"));
  if (data_.model == WordModel::kWordPiece) {
    data_.subword_prefix = prefix.value_or("##");
    QUIRE_ASSIGN_OR_RETURN(const auto most, model.find_int("max_input_chars_per_word"));
    constexpr std::int64_t kMost = 4096;  // each character is looked up with all behind it
    if (most.value_or(1) < 0 || most.value_or(1) > kMost) {
      return model.type_error("max_input_chars_per_word", fmt::format("a count up to {}", kMost));
    }
    data_.max_word_characters = static_cast<std::size_t>(most.value_or(100));
    return {};
  }
  if (!prefix.value_or("").empty()) return unsupported("model: continuing_subword_prefix");
  QUIRE_ASSIGN_OR_RETURN(const auto suffix, model.find_string("end_of_word_suffix"));
  if (!suffix.value_or("").empty()) return unsupported("model: end_of_word_suffix");
  return {};
}

Result<std::size_t> JsonVocabReader::read_id(std::string_view key, const json::value& value) const {
  const std::int64_t* id = value.if_int64();
  if (id == nullptr || *id < 0) return bad(key, "an id is not an integer of at least 0");
  return static_cast<std::size_t>(*id);
}

Status JsonVocabReader::set_token(std::string_view key, std::size_t id, std::string_view text) {
  if (!data_.tokens[id].empty() && data_.tokens[id] != text) {
    return bad(key, fmt::format("two tokens have the id {}", id));
  }
  data_.tokens[id] = text;
  return {};
}

// The ids of a vocabulary by token: an object of them, or the list of a unigram
// model, whose pieces come with their scores.
Result<std::vector<JsonVocabReader::Entry>> JsonVocabReader::read_entries(const JsonReader& model) {
  std::vector<Entry> entries;
  if (data_.model != WordModel::kUnigram) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader vocab, model.get_object("vocab"));
    for (const auto& entry : vocab.object()) {
      QUIRE_ASSIGN_OR_RETURN(const std::size_t id, read_id("model: vocab", entry.value()));
      entries.push_back({entry.key(), id});
    }
    return entries;
  }
  const json::value* pieces = model.find("vocab");
  if (pieces == nullptr || !pieces->is_array()) return model.type_error("vocab", "an array");
  for (const json::value& piece : pieces->get_array()) {
    const json::array* pair = piece.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() ||
        !(*pair)[1].is_number()) {
      return bad("model: vocab",
                 fmt::format("entry {} is not a piece and its score", entries.size()));
    }
    entries.push_back({(*pair)[0].get_string(), entries.size()});
    data_.piece_scores.push_back((*pair)[1].to_number<double>());
  }
  return entries;
}

Status JsonVocabReader::read_vocab(const JsonReader& model) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Entry> entries, read_entries(model));
  std::size_t count = entries.size();
  std::size_t end = 0;
  for (const Entry& entry : entries) end = std::max(end, entry.id + 1);
  if (const json::value* added = root_.find("added_tokens")) {
    if (!added->is_array()) return root_.type_error("added_tokens", "an array");
    count += added->get_array().size();
    for (const json::value& token : added->get_array()) {
      if (!token.is_object()) return root_.type_error("added_tokens", "an array of objects");
      const json::value* value = token.get_object().if_contains("id");
      if (value == nullptr) return bad("added_tokens", "a token has no id");
      QUIRE_ASSIGN_OR_RETURN(const std::size_t id, read_id("added_tokens", *value));
      end = std::max(end, id + 1);
    }
  }
  if (end > count + kMaxUnusedIds) {
    return bad("model: vocab",
               fmt::format("the id {} is far beyond the {} tokens", end - 1, count));
  }
  data_.num_unused_ids = end - std::min(end, count);
  data_.tokens.resize(end);
  data_.kinds.assign(end, TokenKind::kNormal);
  if (data_.model == WordModel::kUnigram) data_.piece_scores.resize(end, 0);
  for (const Entry& entry : entries) {
    QUIRE_RETURN_IF_ERROR(set_token("model: vocab", entry.id, entry.token));
    if (data_.byte_fallback && parse_byte_token(entry.token)) {
      data_.kinds[entry.id] = TokenKind::kByte;
    }
  }
  return {};
}

Status JsonVocabReader::read_added_tokens() {
  const json::value* added = root_.find("added_tokens");
  if (added == nullptr) return {};
  for (const json::value& value : added->get_array()) {
    const JsonReader json(value.get_object(), root_.where() + ": added_tokens");
    AddedToken token;
    QUIRE_ASSIGN_OR_RETURN(token.content, json.get_string("content"));
    token.id = static_cast<TokenId>(json.object().at("id").get_int64());
    const auto flag = [&](std::string_view key, bool fallback, bool& out) -> Status {
      QUIRE_ASSIGN_OR_RETURN(const auto found, json.find_bool(key));
      out = found.value_or(fallback);
      return {};
    };
    QUIRE_RETURN_IF_ERROR(flag("special", false, token.special));
    QUIRE_RETURN_IF_ERROR(flag("lstrip", false, token.lstrip));
    QUIRE_RETURN_IF_ERROR(flag("rstrip", false, token.rstrip));
    QUIRE_RETURN_IF_ERROR(flag("single_word", false, token.single_word));
    QUIRE_RETURN_IF_ERROR(flag("normalized", !token.special, token.normalized));
    const auto id = static_cast<std::size_t>(token.id);
    const bool is_new = data_.tokens[id].empty();
    QUIRE_RETURN_IF_ERROR(set_token("added_tokens", id, token.content));
    if (token.special) {
      data_.kinds[id] = TokenKind::kControl;
    } else if (is_new) {
      data_.kinds[id] = TokenKind::kAdded;
    }
    data_.added_tokens.push_back(std::move(token));
  }
  return {};
}

// "left right", or since version 0.20 of the library ["left", "right"].
Status JsonVocabReader::read_merges(const JsonReader& model) {
  const json::value* merges = model.find("merges");
  if (merges == nullptr || !merges->is_array()) return model.type_error("merges", "an array");
  data_.merges.reserve(merges->get_array().size());
  for (const json::value& merge : merges->get_array()) {
    const std::size_t rank = data_.merges.size();
    if (const json::string* text = merge.if_string()) {
      const std::string_view pair = *text;
      const std::size_t space = pair.find(' ');
      if (space == 0 || space == std::string_view::npos || space + 1 == pair.size() ||
          pair.find(' ', space + 1) != std::string_view::npos) {
        return bad("model: merges", fmt::format("entry {} is not two parts and a space", rank));
      }
      data_.merges.push_back(
          {std::string(pair.substr(0, space)), std::string(pair.substr(space + 1))});
      continue;
    }
    const json::array* pair = merge.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() ||
        !(*pair)[1].is_string()) {
      return bad("model: merges", fmt::format("entry {} is not a pair of strings", rank));
    }
    data_.merges.push_back(
        {std::string((*pair)[0].get_string()), std::string((*pair)[1].get_string())});
  }
  return {};
}

Status JsonVocabReader::read_unknown(const JsonReader& model) {
  if (data_.model == WordModel::kUnigram) {
    QUIRE_ASSIGN_OR_RETURN(const auto id, model.find_int("unk_id"));
    if (!id) return {};
    if (*id < 0 || std::cmp_greater_equal(*id, data_.tokens.size())) {
      return bad("model: unk_id", "it is no token");
    }
    data_.unk_id = static_cast<TokenId>(*id);
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const auto unknown, model.find_string("unk_token"));
  if (unknown) {
    const auto found = std::ranges::find(data_.tokens, *unknown);
    if (found == data_.tokens.end()) return bad("model: unk_token", "it is no token");
    data_.unk_id = static_cast<TokenId>(found - data_.tokens.begin());
  }
  QUIRE_ASSIGN_OR_RETURN(const auto fuse, model.find_bool("fuse_unk"));
  QUIRE_ASSIGN_OR_RETURN(const auto ignore, model.find_bool("ignore_merges"));
  data_.fuse_unk = fuse.value_or(false);
  data_.ignore_merges = ignore.value_or(false);
  return {};
}

}  // namespace

Result<VocabData> read_tokenizer_json(const json::value& tokenizer_json,
                                      const json::object* tokenizer_config,
                                      const json::object* generation_config,
                                      const json::object* model_config, std::string_view where) {
  const json::object* root = tokenizer_json.if_object();
  if (root == nullptr) {
    return Status::bad_model(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(tokenizer_json)));
  }
  return JsonVocabReader(JsonReader(*root, std::string(where)))
      .read(tokenizer_config, generation_config, model_config);
}

}  // namespace quire
