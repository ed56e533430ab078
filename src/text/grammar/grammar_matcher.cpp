#include "text/grammar/grammar_matcher.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "text/grammar/parse_closing.h"
#include "text/grammar/parse_store.h"

namespace quire {

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
    : grammar_(std::move(grammar)), store_(grammar_->store(nullptr)), sets_{ParseStore::kFirst} {}

std::unique_lock<std::mutex> GrammarMatcher::lock_store() {
  std::unique_lock lock(store_->mutex());
  return store_->is_full() ? renew_store(std::move(lock)) : std::move(lock);
}

std::unique_lock<std::mutex> GrammarMatcher::renew_store(std::unique_lock<std::mutex> old_lock) {
  // An older store's lock is held while a younger one's is taken, never the other way round.
  const std::shared_ptr<ParseStore> fresh = grammar_->store(store_.get());
  std::unique_lock lock(fresh->mutex());
  sets_ = fresh->adopt(*store_, sets_);
  old_lock.unlock();
  store_ = fresh;
  return lock;
}

template <typename Ask>
Status GrammarMatcher::ask_store(Ask ask) {
  std::unique_lock lock = lock_store();
  Status status = ask(*store_);
  if (status.code() == StatusCode::kResourceExhausted) {
    // What others have left in the store must not decide.
    lock = renew_store(std::move(lock));
    status = ask(*store_);
  }
  return status;
}

Status GrammarMatcher::fill_mask(std::span<std::uint32_t> words) {
  const GrammarVocabulary& vocabulary = grammar_->vocabulary();
  if (words.size() != vocabulary.mask_words()) {
    return Status::internal("a grammar's mask is asked for with the wrong number of words");
  }
  if (is_finished()) {
    std::fill(words.begin(), words.end(), 0);
    for (const TokenId token : vocabulary.end_ids()) {
      const auto id = static_cast<std::size_t>(token);
      words[id / 32] |= std::uint32_t{1} << (id % 32);
    }
    return {};
  }
  QUIRE_RETURN_IF_ERROR(
      ask_store([&](ParseStore& store) { return store.fill_mask(current(), words); }));
  if (std::all_of(words.begin(), words.end(), [](std::uint32_t word) { return word == 0; })) {
    return Status::invalid_argument(
        "the grammar wants text here that no token of the model's vocabulary begins",
        "allow text that the vocabulary has");
  }
  return {};
}

Result<std::optional<std::uint32_t>> GrammarMatcher::tokens_to_end() {
  if (is_finished()) return std::optional<std::uint32_t>(0);
  std::optional<std::uint32_t> tokens;
  QUIRE_RETURN_IF_ERROR(ask_store([&](ParseStore& store) {
    const std::uint32_t found = store.closing().tokens_to_end(current());
    tokens = found == ParseClosing::kNever ? std::nullopt : std::optional(found);
    return store.take_error();
  }));
  return tokens;
}

Status GrammarMatcher::keep_closable(std::uint32_t most, std::span<std::uint32_t> words) {
  if (is_finished()) return {};
  return ask_store(
      [&](ParseStore& store) { return store.closing().keep_closable(current(), most, words); });
}

std::uint32_t GrammarMatcher::behind(TokenId token) {
  const GrammarVocabulary& vocabulary = grammar_->vocabulary();
  if (is_finished() || !vocabulary.contains(token)) return ParseStore::kDead;
  const std::unique_lock lock = lock_store();
  const std::uint32_t next = store_->next_token(current(), token);
  return store_->take_error().ok() ? next : ParseStore::kDead;
}

bool GrammarMatcher::accept(TokenId token) {
  const std::uint32_t next = behind(token);
  if (next != ParseStore::kDead) {
    sets_.push_back(next);
    return true;
  }
  if (!grammar_->vocabulary().is_end(token) || !can_end()) return false;
  ++num_ends_;
  sets_.push_back(current());
  return true;
}

bool GrammarMatcher::allows(TokenId token) {
  if (behind(token) != ParseStore::kDead) return true;
  return grammar_->vocabulary().is_end(token) && can_end();
}

bool GrammarMatcher::accept_text(std::string_view bytes) {
  if (is_finished()) return false;
  const std::unique_lock lock = lock_store();
  const std::uint32_t next = store_->next(current(), bytes);
  if (!store_->take_error().ok() || next == ParseStore::kDead) return false;
  sets_.push_back(next);
  return true;
}

void GrammarMatcher::rollback(std::size_t count) {
  count = std::min(count, num_accepted());
  sets_.resize(sets_.size() - count);
  num_ends_ -= std::min(count, num_ends_);  // nothing but ends follows an end
}

bool GrammarMatcher::can_end() {
  if (is_finished()) return true;
  const std::unique_lock lock = lock_store();
  return store_->can_end(current());
}

bool GrammarMatcher::must_end() {
  if (is_finished()) return true;
  const std::unique_lock lock = lock_store();
  return store_->can_end(current()) && store_->next_bytes(current()).count == 0 &&
         store_->next_tokens(current()).empty();
}

std::string GrammarMatcher::forced_text(std::size_t max_bytes) {
  std::string text;
  if (is_finished()) return text;
  const std::unique_lock lock = lock_store();
  std::uint32_t set = current();
  while (text.size() < max_bytes && !store_->can_end(set) && store_->next_tokens(set).empty()) {
    const ParseStore::NextBytes bytes = store_->next_bytes(set);
    if (bytes.count != 1) break;
    set = store_->next(set, bytes.byte);
    if (!store_->take_error().ok() || set == ParseStore::kDead) break;
    text += static_cast<char>(bytes.byte);
  }
  return text;
}

std::optional<TokenId> GrammarMatcher::forced_token() {
  if (is_finished()) return std::nullopt;
  const std::unique_lock lock = lock_store();
  const std::vector<TokenId> tokens = store_->next_tokens(current());
  if (tokens.size() != 1 || store_->can_end(current()) ||
      store_->next_bytes(current()).count != 0) {
    return std::nullopt;
  }
  return tokens[0];
}

}  // namespace quire
