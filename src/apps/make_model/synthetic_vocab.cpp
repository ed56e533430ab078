#include "apps/make_model/synthetic_vocab.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/byte_alphabet.h"

namespace quire {
namespace {

constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
constexpr std::string_view kControl[] = {"<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>",
                                         "<|im_end|>"};

// Calls fn(i, j) for all pairs below `count`, those of small numbers first.
template <typename F>
void for_each_pair(std::size_t count, F&& fn) {
  for (std::size_t shell = 0; shell < count; ++shell) {
    for (std::size_t i = 0; i < shell; ++i) {
      fn(i, shell);
      fn(shell, i);
    }
    fn(shell, shell);
  }
}

}  // namespace

Result<SyntheticVocab> make_synthetic_vocab(std::int64_t size) {
  constexpr std::size_t kPairs = kLetters.size() * kLetters.size();
  constexpr std::size_t kMaxMerges =
      kLetters.size() + kPairs + kLetters.size() * kPairs + kPairs * kPairs;
  constexpr std::size_t kFixed = 256 + std::size(kControl);
  if (size < static_cast<std::int64_t>(kFixed) ||
      size > static_cast<std::int64_t>(kFixed + kMaxMerges)) {
    return Status::invalid_argument(
        fmt::format("a vocabulary of {} tokens cannot be made up", size),
        fmt::format("{} to {}", kFixed, kFixed + kMaxMerges));
  }
  SyntheticVocab vocab;
  const std::size_t num_merges = static_cast<std::size_t>(size) - kFixed;
  for (int byte = 0; byte < 256; ++byte) {
    vocab.tokens.emplace_back(byte_to_symbol(static_cast<std::uint8_t>(byte)));
  }
  // Each token comes from one merge only: two letters, two pairs, or a space and one of the former.
  const auto merge = [&](const std::string& left, const std::string& right) {
    if (vocab.merges.size() == num_merges) return;
    vocab.merges.emplace_back(left, right);
    vocab.tokens.push_back(left + right);
  };
  const std::string space(byte_to_symbol(' '));
  const auto letter = [](std::size_t i) { return std::string(1, kLetters[i]); };
  std::vector<std::string> pairs;
  for_each_pair(kLetters.size(), [&](std::size_t i, std::size_t j) {
    pairs.push_back(letter(i) + letter(j));
    merge(letter(i), letter(j));
  });
  for (std::size_t i = 0; i < kLetters.size(); ++i) merge(space, letter(i));
  for (const std::string& pair : pairs) {
    for (std::size_t i = 0; i < kLetters.size(); ++i) merge(space + letter(i), pair);
  }
  for_each_pair(pairs.size(), [&](std::size_t i, std::size_t j) { merge(pairs[i], pairs[j]); });

  vocab.num_control_tokens = std::size(kControl);
  for (const std::string_view token : kControl) vocab.tokens.emplace_back(token);
  vocab.bos_id = vocab.first_control_id();
  vocab.eos_id = vocab.bos_id + 1;
  vocab.end_of_turn_id = vocab.bos_id + 3;
  return vocab;
}

std::string_view synthetic_chat_template() {
  return "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
         "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<|im_start|>assistant\n' }}{% endif %}";
}

}  // namespace quire
