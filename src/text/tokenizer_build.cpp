// Tokenizer::create: checks a VocabData and fills the tables.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "text/byte_alphabet.h"
#include "text/tokenizer_model.h"
#include "text/utf8.h"

namespace quire {

namespace {

// Longer than any published token; bounds the work per token and per position of a text.
constexpr std::size_t kMaxTokenBytes = 1024;

Status bad(std::string what) {
  return Status::bad_model("tokenizer: " + std::move(what),
                           "the tokenizer's files are damaged or inconsistent; fetch them again");
}

class Builder {
 public:
  explicit Builder(VocabData data) : model_(std::make_unique<Tokenizer::Model>()) {
    model_->data = std::move(data);
  }

  Result<std::unique_ptr<Tokenizer::Model>> build() {
    QUIRE_RETURN_IF_ERROR(check());
    QUIRE_RETURN_IF_ERROR(add_steps());
    QUIRE_RETURN_IF_ERROR(add_added_tokens());
    QUIRE_RETURN_IF_ERROR(index_tokens());
    if (data().model != WordModel::kBpe) {
      add_pieces();
    } else if (!data().scores.empty()) {
      add_merges_by_score();
    } else {
      QUIRE_RETURN_IF_ERROR(add_merges_by_rank());
    }
    model_->fuses_unknown = data().fuse_unk && !spells_all_bytes();
    if (model_->fuses_unknown) model_->merged_words.join_all();
    if (model_->cuts_by_merges && writes_spaces_ && model_->normalized_matcher.empty()) {
      read_spaces();
    }
    index_ascii();
    add_whole_words();
    bound_bytes_per_token();
    return std::move(model_);
  }

 private:
  VocabData& data() { return model_->data; }
  bool is_id(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < model_->size(); }
  const std::string& text_of(TokenId id) const {
    return model_->data.tokens[static_cast<std::size_t>(id)];
  }
  bool byte_level() const { return model_->data.style == BpeStyle::kByteLevel; }

  Status check();
  Status check_id(TokenId id, std::string_view name) const;
  Status add_steps();
  Status add_added_tokens();
  Status index_tokens();
  void index_first_symbols();
  void index_ascii();
  void add_pieces();
  Status add_merges_by_rank();
  void add_merges_by_score();
  void read_spaces();
  TokenId symbol_of_char(const std::string& symbol);
  TokenId part_of_token(std::string_view part);
  void add_whole_words();
  bool may_cut_by_merges() const;
  bool spells_all_bytes() const;
  void bound_bytes_per_token();

  std::unique_ptr<Tokenizer::Model> model_;
  std::unordered_map<TokenId, std::string>
      normalized_contents_;     // where it is not the token's text
  bool writes_spaces_ = false;  // what normalization does, all of it
  bool prepends_space_ = false;
};

Status Builder::check_id(TokenId id, std::string_view name) const {
  if (is_id(id)) return {};
  return bad(fmt::format("{} {} is outside the vocabulary of {} tokens", name, id, model_->size()));
}

Status Builder::check() {
  const VocabData& d = data();
  const std::size_t size = d.tokens.size();
  if (size == 0) return bad("the vocabulary is empty");
  // Symbols beyond the vocabulary (one per token at most) are ids too.
  if (size > std::numeric_limits<TokenId>::max() / 2) return bad("the vocabulary is too large");
  if (d.kinds.size() != size) {
    return bad(fmt::format("{} token kinds for {} tokens", d.kinds.size(), size));
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (d.tokens[i].size() > kMaxTokenBytes) {
      return bad(fmt::format("token {} is {} bytes long, more than {}", i, d.tokens[i].size(),
                             kMaxTokenBytes));
    }
  }
  if (d.model != WordModel::kBpe && (byte_level() || !d.scores.empty() || !d.merges.empty())) {
    return bad("merges, or bytes, of a model that has none");
  }
  if (d.model == WordModel::kUnigram && d.piece_scores.size() != size) {
    return bad(fmt::format("{} scores for {} tokens", d.piece_scores.size(), size));
  }
  if (std::ranges::any_of(d.piece_scores, [](double score) { return !std::isfinite(score); })) {
    return bad("a score is not a number");
  }
  if (!d.scores.empty()) {
    if (!d.merges.empty()) return bad("both merges and scores are given");
    if (d.scores.size() != size) {
      return bad(fmt::format("{} scores for {} tokens", d.scores.size(), size));
    }
    const auto nan = std::ranges::find_if(d.scores, [](float s) { return std::isnan(s); });
    if (nan != d.scores.end()) {
      return bad(fmt::format("the score of token {} is not a number", nan - d.scores.begin()));
    }
  }
  if (byte_level() && d.byte_fallback) {
    return bad("a byte-level vocabulary has no byte fallback");
  }
  if (d.unk_id) QUIRE_RETURN_IF_ERROR(check_id(*d.unk_id, "the unknown token"));
  if (d.bos_id) QUIRE_RETURN_IF_ERROR(check_id(*d.bos_id, "the BOS token"));
  for (const TokenId id : d.eos_ids) QUIRE_RETURN_IF_ERROR(check_id(id, "the EOS token"));
  for (const TokenId id : d.prefix_ids) {
    QUIRE_RETURN_IF_ERROR(check_id(id, "a token before the text"));
  }
  for (const TokenId id : d.suffix_ids) {
    QUIRE_RETURN_IF_ERROR(check_id(id, "a token after the text"));
  }
  return {};
}

// Whether a text has at least as many bytes when it is cut into words as it has to begin with.
bool keeps_all_text(const VocabData& data) {
  const auto keeps = [](const NormalizerStep& step) {
    switch (step.kind) {
      case NormalizerStep::Kind::kPrepend:
      case NormalizerStep::Kind::kByteSymbols:
        return true;
      case NormalizerStep::Kind::kReplace:
        return !step.pattern.is_regex && step.content.size() >= step.pattern.text.size();
      default:
        return false;
    }
  };
  const auto cuts = [](const PreTokenizerStep& step) {
    return step.kind == PreTokenizerStep::Kind::kWhitespace ||
           step.kind == PreTokenizerStep::Kind::kWhitespaceSplit ||
           step.behavior == SplitBehavior::kRemoved;
  };
  // These include the white space beside them, however much it is.
  const auto grows = [](const AddedToken& token) { return token.lstrip || token.rstrip; };
  return std::ranges::all_of(data.normalizers, keeps) &&
         std::ranges::none_of(data.pre_tokenizers, cuts) &&
         std::ranges::none_of(data.added_tokens, grows);
}

// Whether normalization makes spaces U+2581, after one more in front or not, and nothing else.
bool writes_spaces(std::span<const NormalizerStep> steps) {
  if (steps.size() == 2 && steps.front().kind == NormalizerStep::Kind::kPrepend &&
      steps.front().content == kSpaceSymbol) {
    steps = steps.subspan(1);
  }
  return steps.size() == 1 && steps.front().kind == NormalizerStep::Kind::kReplace &&
         !steps.front().pattern.is_regex && steps.front().pattern.text == " " &&
         steps.front().content == kSpaceSymbol;
}

Status Builder::add_steps() {
  model_->keeps_all_text = keeps_all_text(data());
  writes_spaces_ = writes_spaces(data().normalizers);
  prepends_space_ = data().normalizers.size() == 2;
  QUIRE_ASSIGN_OR_RETURN(model_->normalizer,
                         Normalizer::create(std::exchange(data().normalizers, {})));
  QUIRE_ASSIGN_OR_RETURN(model_->pre_tokenizer,
                         PreTokenizer::create(std::exchange(data().pre_tokenizers, {})));
  QUIRE_ASSIGN_OR_RETURN(model_->decoder, TokenDecoder::create(std::exchange(data().decoders, {})));
  return {};
}

Status Builder::add_added_tokens() {
  Tokenizer::Model& m = *model_;
  m.special.resize(m.size());
  for (std::size_t i = 0; i < m.size(); ++i) {
    m.special[i] = data().kinds[i] == TokenKind::kControl || data().kinds[i] == TokenKind::kUnknown;
  }
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : std::exchange(data().added_tokens, {})) {
    QUIRE_RETURN_IF_ERROR(check_id(token.id, "an added token's id"));
    if (token.content.empty()) return bad(fmt::format("added token {} is empty", token.id));
    if (text_of(token.id) != token.content) {
      return bad(
          fmt::format("token {} is added with another text than the vocabulary's", token.id));
    }
    const auto index = static_cast<std::size_t>(token.id);
    if (token.special) m.special[index] = true;
    if (m.special[index]) token.special = true;
    if (token.normalized) {
      QUIRE_ASSIGN_OR_RETURN(auto content, m.normalizer.normalize(token.content));
      token.content = std::move(content.text);
      if (token.content.empty()) continue;  // no text can be it
      if (token.content != text_of(token.id)) normalized_contents_[token.id] = token.content;
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  // Of equal contents the special token wins.
  for (auto* tokens : {&raw, &normalized}) {
    std::stable_partition(tokens->begin(), tokens->end(),
                          [](const AddedToken& token) { return token.special; });
  }
  m.raw_matcher = AddedTokenMatcher(std::move(raw));
  m.normalized_matcher = AddedTokenMatcher(std::move(normalized));
  return {};
}

Status Builder::index_tokens() {
  Tokenizer::Model& m = *model_;
  m.bytes.resize(m.size());
  m.byte_ids.fill(-1);
  m.by_text.reserve(m.size());
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::string& text = data().tokens[i];
    const TokenKind kind = data().kinds[i];
    if (text.empty()) continue;
    m.by_text.emplace(text, static_cast<TokenId>(i));

    if (data().byte_fallback && kind == TokenKind::kByte) {
      const auto byte = parse_byte_token(text);
      if (!byte) return bad(fmt::format("byte token {} is not of the form <0xNN>", i));
      m.byte_ids[*byte] = static_cast<TokenId>(i);
    }
    // An added token that is looked for in normalized text decodes to what it is there.
    const auto normalized = normalized_contents_.find(static_cast<TokenId>(i));
    const std::string& shown = normalized == normalized_contents_.end() ? text : normalized->second;
    QUIRE_ASSIGN_OR_RETURN(m.bytes[i], m.decoder.decode(shown, /*is_first=*/false));
    if (m.decoder.first_token_differs()) {
      QUIRE_ASSIGN_OR_RETURN(std::string first, m.decoder.decode(shown, /*is_first=*/true));
      if (first != m.bytes[i]) m.first_bytes.emplace(static_cast<TokenId>(i), std::move(first));
    }
  }
  index_first_symbols();
  return {};
}

void Builder::index_first_symbols() {
  Tokenizer::Model& m = *model_;
  if (byte_level()) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto found = m.by_text.find(byte_to_symbol(static_cast<std::uint8_t>(byte)));
      if (found != m.by_text.end() && model_->is_ordinary(found->second))
        m.byte_ids[byte] = found->second;
    }
    return;
  }
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::string& text = data().tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (!text.empty() && symbol_size(text, 0) == text.size() && model_->is_ordinary(id)) {
      m.char_ids.emplace(text, id);
    }
  }
}

Status Builder::add_merges_by_rank() {
  Tokenizer::Model& m = *model_;
  const std::vector<BpeMerge> merges = std::exchange(data().merges, {});
  if (merges.size() >= MergeTable::kNoRank) return bad("too many merges");
  m.merges = MergeTable(merges.size());
  bool has_stand_ins = false;  // parts whose text is not what they stand for
  const auto stands_in = [&](TokenId id) {
    return data().kinds[static_cast<std::size_t>(id)] == TokenKind::kByte || id == data().unk_id;
  };
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string merged_text = merges[rank].left + merges[rank].right;
    const auto left = m.by_text.find(merges[rank].left);
    const auto right = m.by_text.find(merges[rank].right);
    const auto merged = m.by_text.find(merged_text);
    for (const auto& part : {left, right, merged}) {
      if (part == m.by_text.end()) {
        return bad(fmt::format("merge {} has a part or a result that is no token", rank));
      }
    }
    if (!model_->is_ordinary(merged->second)) continue;
    const auto as_rank = static_cast<std::uint32_t>(rank);
    m.merges.insert(left->second, right->second, {as_rank, merged->second});
    m.merged_words.add(merges[rank].left, merges[rank].right, as_rank);
    has_stand_ins |= stands_in(left->second) || stands_in(right->second);
  }
  m.cuts_by_merges = !byte_level() && !has_stand_ins && may_cut_by_merges();
  return {};
}

// The symbol of one character of a token's text; a new one if no token is that character alone.
TokenId Builder::symbol_of_char(const std::string& symbol) {
  Tokenizer::Model& m = *model_;
  const auto id = static_cast<TokenId>(m.size() + m.symbol_texts.size());
  const auto [entry, is_new] = m.char_ids.emplace(symbol, id);
  if (is_new) m.symbol_texts.push_back(symbol);
  return entry->second;
}

// The symbol that `part` of a token can be by the time it merges: a character or a token; else -1.
TokenId Builder::part_of_token(std::string_view part) {
  if (!byte_level() && symbol_size(part, 0) == part.size()) {
    return symbol_of_char(std::string(part));
  }
  const auto found = model_->by_text.find(part);
  return found != model_->by_text.end() && model_->is_ordinary(found->second) ? found->second : -1;
}

// "Merge the pair whose concatenation is the token of the best score" becomes merges with ranks:
// each token can come from each of its splits into two symbols, at the rank of its score among all.
void Builder::add_merges_by_score() {
  Tokenizer::Model& m = *model_;
  const std::vector<float> scores = std::exchange(data().scores, {});
  std::vector<float> order = scores;
  std::ranges::sort(order, std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());

  m.merges = MergeTable(scores.size() * 2);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::string_view text = data().tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (text.empty() || !model_->is_ordinary(id) || m.by_text.at(text) != id) continue;
    const auto rank = static_cast<std::uint32_t>(
        std::ranges::lower_bound(order, scores[i], std::greater<>()) - order.begin());
    for (std::size_t cut = symbol_size(text, 0); cut < text.size(); cut += symbol_size(text, cut)) {
      const TokenId left = part_of_token(text.substr(0, cut));
      const TokenId right = part_of_token(text.substr(cut));
      if (left < 0 || right < 0) continue;
      m.merges.insert(left, right, {rank, id});
      m.merged_words.add(text.substr(0, cut), text.substr(cut), rank);
    }
  }
  m.cuts_by_merges = may_cut_by_merges();
}

bool Builder::may_cut_by_merges() const {
  return model_->pre_tokenizer.empty() && !model_->data.ignore_merges &&
         model_->merged_words.end_before_spaces() &&
         model_->char_ids.contains(std::string(kSpaceSymbol));
}

// In place of normalization: a text is as long as it was, and need not be written once more.
void Builder::read_spaces() {
  Tokenizer::Model& m = *model_;
  m.normalizer = {};
  m.prepends_space = prepends_space_;
  m.merged_words.read_spaces();
  m.char_ids.insert_or_assign(" ", m.char_ids.at(std::string(kSpaceSymbol)));
}

void Builder::index_ascii() {
  Tokenizer::Model& m = *model_;
  m.ascii_ids.fill(-1);
  for (const auto& [text, id] : m.char_ids) {
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < m.ascii_ids.size()) m.ascii_ids[byte] = id;
  }
}

// What a unigram or a word-piece model looks its pieces up in.
void Builder::add_pieces() {
  constexpr double kUnknownPenalty = 10;  // SentencePiece's
  Tokenizer::Model& m = *model_;
  const std::vector<double> scores = std::exchange(data().piece_scores, {});
  if (!scores.empty()) m.unknown_score = std::ranges::min(scores) - kUnknownPenalty;
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::string& text = data().tokens[i];
    m.longest_token = std::max(m.longest_token, text.size());
    const auto id = static_cast<TokenId>(i);
    if (!scores.empty() && !text.empty() && m.is_ordinary(id)) m.pieces.insert(text, id, scores[i]);
  }
}

void Builder::add_whole_words() {
  Tokenizer::Model& m = *model_;
  std::vector<TokenId> ids;
  WordEncoder encoder(m, ids);
  m.whole_words = WordTable(m.size());
  for (std::size_t i = 0; i < m.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    // Of tokens with equal text only the first is found by it.
    if (data().tokens[i].empty() || m.by_text.at(data().tokens[i]) != id) continue;
    std::string word = data().tokens[i];
    if (byte_level()) {
      auto bytes = symbols_to_bytes(word);
      if (!bytes) continue;  // no text is it
      word = std::move(*bytes);
    }
    if (!model_->is_ordinary(id)) continue;
    if (!data().ignore_merges) {
      ids.clear();
      encoder.encode_by_model(word, {});
      if (ids.size() != 1 || ids.front() != id) continue;
    }
    m.longest_whole_word = std::max(m.longest_whole_word, word.size());
    m.whole_words.insert(word, id);
    if (!m.merged_words.reads_spaces()) continue;
    replace_all(word, kSpaceSymbol, " ");
    m.whole_words.insert(word, id);
  }
}

bool Builder::spells_all_bytes() const {
  return (byte_level() || model_->data.byte_fallback) &&
         std::ranges::all_of(model_->byte_ids, [](TokenId id) { return id >= 0; });
}

// A token of a word stands for its own text, a byte token or the unknown token for one symbol.
void Builder::bound_bytes_per_token() {
  constexpr std::size_t kMaxSymbolBytes = 4;
  Tokenizer::Model& m = *model_;
  const bool one_unknown_each =
      data().model == WordModel::kBpe && data().unk_id && !data().fuse_unk;
  if (!spells_all_bytes() && !one_unknown_each) return;
  std::size_t most = kMaxSymbolBytes;
  for (std::size_t i = 0; i < m.size(); ++i) {
    most = std::max({most, data().tokens[i].size(), m.bytes[i].size()});
  }
  for (const auto& [id, content] : normalized_contents_) most = std::max(most, content.size());
  m.most_bytes_per_token = most;
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> Tokenizer::create(VocabData data) {
  QUIRE_ASSIGN_OR_RETURN(auto model, Builder(std::move(data)).build());
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(model)));
}

}  // namespace quire
