#include "kernels/attention_plan.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "kernels/attention_scratch.h"

namespace quire {
namespace {

// Fewest rows that a prefix is shared by in one work item, where there are so many: fewer would
// convert its keys and values too often.
constexpr std::int32_t kMinSharedRows = 24;

// Pairs of query and key, near enough.
std::int64_t cost(const AttentionWork& work) {
  return std::int64_t{work.key_end - work.key_begin} * (work.query_end - work.query_begin);
}

}  // namespace

void AttentionPlan::reserve(std::int32_t max_tokens, const AttentionHeads& heads, int num_threads) {
  const auto most =
      static_cast<std::size_t>(max_tokens) * static_cast<std::size_t>(heads.num_kv_heads);
  const auto splits =
      static_cast<std::size_t>(kWorkPerThread) * static_cast<std::size_t>(num_threads);
  whole_.reserve(most);
  work_.reserve(most + 2 * splits);
  splits_.reserve(splits);
  prefixes_.reserve(max_tokens);
  shared_.reserve(most);
  member_queries_.reserve(static_cast<std::size_t>(max_tokens));
  member_positions_.reserve(static_cast<std::size_t>(max_tokens));
  of_sequence_.reserve(static_cast<std::size_t>(max_tokens));
}

void AttentionPlan::split(const AttentionWork& whole, std::int32_t keys_per_piece) {
  splits_.push_back(whole);
  splits_.back().partials = num_partials_;
  for (std::int32_t begin = whole.key_begin; begin < whole.key_end; begin += keys_per_piece) {
    AttentionWork piece = splits_.back();
    piece.key_begin = begin;
    piece.key_end = std::min(begin + keys_per_piece, whole.key_end);
    work_.push_back(piece);
  }
  num_partials_ += ceil_div(whole.key_end, kRangeKeys);
}

void AttentionPlan::share_prefixes(const AttentionHeads& heads, int num_threads) {
  prefixes_.find(batch_);
  shared_.clear();
  member_queries_.clear();
  member_positions_.clear();
  of_sequence_.assign(static_cast<std::size_t>(batch_.num_seqs), AttentionWork{});
  num_states_ = std::int64_t{heads.num_kv_heads} * std::ssize(members());
  for (std::size_t m = 0; m < members().size(); ++m) {
    const std::int32_t sequence = members()[m];
    member_queries_.push_back(batch_.query_start_loc[sequence]);
    member_positions_.push_back(batch_.seq_lens[sequence] - 1);
    of_sequence_[static_cast<std::size_t>(sequence)].state =
        static_cast<std::int64_t>(m) * heads.num_kv_heads;
  }
  const std::int32_t most = queries_per_work(heads.heads_per_kv_head);
  const auto fewest = static_cast<std::int32_t>(ceil_div(kMinSharedRows, heads.heads_per_kv_head));
  const std::int32_t wanted =
      num_threads == 1 ? 1 : std::max(1, kWorkPerThread * num_threads / heads.num_kv_heads);
  keys_saved_ = 0;
  for (const PrefixGroup& group : prefixes_.groups()) {
    const std::int32_t size = group.end - group.begin;
    keys_saved_ += std::int64_t{size - 1} * group.keys;
    const auto parts = std::max(static_cast<std::int32_t>(ceil_div(size, most)),
                                std::min(wanted, std::max(1, size / fewest)));
    const auto each = static_cast<std::int32_t>(ceil_div(size, parts));
    for (std::int32_t m = group.begin; m < group.end; ++m) {
      of_sequence_[static_cast<std::size_t>(members()[static_cast<std::size_t>(m)])].shared_keys =
          group.keys;
    }
    for (std::int32_t begin = group.begin; begin < group.end; begin += each) {
      for (std::int32_t kv_head = 0; kv_head < heads.num_kv_heads; ++kv_head) {
        shared_.push_back({.kv_head = kv_head,
                           .member_begin = begin,
                           .member_end = std::min(begin + each, group.end),
                           .key_end = group.keys});
      }
    }
  }
  std::sort(shared_.begin(), shared_.end(), [](const SharedWork& a, const SharedWork& b) {
    return std::tie(b.key_end, a.member_begin, a.kv_head) <
           std::tie(a.key_end, b.member_begin, b.kv_head);
  });
}

void AttentionPlan::build(const AttentionBatch& batch, const AttentionHeads& heads,
                          int num_threads) {
  batch_ = batch;
  whole_.clear();
  work_.clear();
  splits_.clear();
  num_partials_ = 0;
  share_prefixes(heads, num_threads);
  const std::int32_t queries = queries_per_work(heads.heads_per_kv_head);
  std::int64_t total = 0;
  for (std::int32_t sequence = 0; sequence < batch.num_seqs; ++sequence) {
    const std::int32_t last = batch.query_start_loc[sequence + 1];
    const AttentionWork& shared = of_sequence_[static_cast<std::size_t>(sequence)];
    for (std::int32_t begin = batch.query_start_loc[sequence]; begin < last; begin += queries) {
      const std::int32_t end = std::min(begin + queries, last);
      for (std::int32_t kv_head = 0; kv_head < heads.num_kv_heads; ++kv_head) {
        whole_.push_back({.sequence = sequence,
                          .kv_head = kv_head,
                          .query_begin = begin,
                          .query_end = end,
                          .key_begin = shared.shared_keys,
                          .key_end = batch.seq_lens[sequence] - last + end,
                          .shared_keys = shared.shared_keys,
                          .state = shared.state < 0 ? -1 : shared.state + kv_head});
        total += cost(whole_.back());
      }
    }
  }
  // A share of the step, in whole ranges. Work that is longer is split, so fewer items than there
  // are shares are.
  const std::int64_t shares = std::int64_t{kWorkPerThread} * num_threads;
  const std::int64_t share = ceil_div(ceil_div(total, shares), kRangeKeys) * kRangeKeys;
  for (const AttentionWork& work : whole_) {
    if (num_threads > 1 && work.query_end - work.query_begin == 1 &&
        work.key_end - work.key_begin > share) {
      split(work, static_cast<std::int32_t>(share));
    } else {
      work_.push_back(work);
    }
  }
  std::sort(work_.begin(), work_.end(), [](const AttentionWork& a, const AttentionWork& b) {
    const std::int64_t cost_a = cost(a);
    const std::int64_t cost_b = cost(b);
    return std::tie(cost_b, a.query_begin, a.kv_head, a.key_begin) <
           std::tie(cost_a, b.query_begin, b.kv_head, b.key_begin);
  });
}

}  // namespace quire
