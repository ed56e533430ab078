#include "exec/input_batch.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {
namespace {

// A path repeats less than a block, and less than a tree has of drafts.
std::size_t max_repeated(const InputBatchLimits& limits) {
  return static_cast<std::size_t>(limits.max_branches()) *
         static_cast<std::size_t>(std::min(limits.block_size - 1, kMaxTreeDrafts));
}

Status unknown_request(RequestId id) {
  return Status::internal(fmt::format("the step names request {}, which is not known", id));
}

}  // namespace

InputBatch::InputBatch(const InputBatchLimits& limits)
    : block_size_(limits.block_size),
      max_num_seqs_(limits.max_num_seqs),
      pages_(static_cast<std::size_t>(limits.pages_per_block)) {
  const auto tokens = static_cast<std::size_t>(limits.max_num_batched_tokens);
  const auto sequences = static_cast<std::size_t>(limits.max_num_seqs);
  const auto length = static_cast<std::size_t>(limits.max_model_len);
  const auto reserve = [&](Sequence& sequence) {
    sequence.token_ids.reserve(length);
    sequence.block_ids.resize(pages_.size());
    for (std::vector<BlockId>& table : sequence.block_ids) {
      table.reserve(static_cast<std::size_t>(ceil_div(limits.max_model_len, block_size_)));
    }
  };
  requests_.reserve(sequences, reserve);
  branches_.resize(static_cast<std::size_t>(limits.max_branches()));
  for (Sequence& branch : branches_) reserve(branch);
  const std::size_t most = sequences + branches_.size();
  token_ids_.reserve(tokens);
  positions_.reserve(tokens);
  repeated_rows_.reserve(max_repeated(limits));
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    PageArrays& page = pages_[i];
    page.state = i + static_cast<std::size_t>(limits.state_pages) >= pages_.size();
    if (page.state) {
      page.state_runs.reserve(tokens);
    } else {
      page.slot_mapping.reserve(tokens);
      page.repeated_slots.reserve(max_repeated(limits));
    }
    page.block_tables.reserve(most);
  }
  paths_.reserve(kMaxTreeDrafts);
  query_start_loc_.reserve(most + 1);
  seq_lens_.reserve(most);
  sample_rows_.reserve(tokens);
  pool_rows_.reserve(tokens);
  prompt_rows_.reserve(tokens);
  known_rows_.reserve(tokens);
}

void InputBatch::prefault() {
  const auto touch = [](auto& values) {
    values.resize(values.capacity());
    values.clear();
  };
  const auto touch_all = [&](Sequence& sequence) {
    touch(sequence.token_ids);
    for (std::vector<BlockId>& table : sequence.block_ids) touch(table);
  };
  requests_.reserve(static_cast<std::size_t>(max_num_seqs_), touch_all);
  for (Sequence& branch : branches_) touch_all(branch);
}

std::uint64_t InputBatch::bytes(const InputBatchLimits& limits) {
  const auto tokens = static_cast<std::uint64_t>(limits.max_num_batched_tokens);
  const auto sequences = static_cast<std::uint64_t>(limits.max_num_seqs);
  const auto length = static_cast<std::uint64_t>(limits.max_model_len);
  const auto pages = static_cast<std::uint64_t>(limits.pages_per_block);
  const auto states = static_cast<std::uint64_t>(limits.state_pages);
  const std::uint64_t per_page_of_sequence =
      static_cast<std::uint64_t>(ceil_div(limits.max_model_len, limits.block_size)) *
          sizeof(BlockId) +
      sizeof(std::vector<BlockId>) + sizeof(void*);
  const std::uint64_t per_branch = length * sizeof(TokenId) + pages * per_page_of_sequence +
                                   sizeof(Sequence) + 2 * sizeof(std::int32_t);
  const std::uint64_t per_sequence = per_branch + sizeof(RequestState) - sizeof(Sequence);
  const std::uint64_t per_token = sizeof(TokenId) + sizeof(std::int32_t) +
                                  (pages - states) * sizeof(std::int64_t) +
                                  states * sizeof(StateRun) + sizeof(SampleRow) +
                                  sizeof(PromptRow) + sizeof(PoolRow) + sizeof(std::int64_t);
  return sequences * per_sequence + static_cast<std::uint64_t>(limits.max_branches()) * per_branch +
         tokens * per_token + max_repeated(limits) * (1 + pages) * sizeof(std::int64_t);
}

Status InputBatch::apply_diffs(const SchedulerOutput& step) {
  for (const BlockTruncation& truncation : step.truncated_tables) {
    RequestState* state = requests_.find(truncation.request_id);
    if (state == nullptr) return unknown_request(truncation.request_id);
    for (std::vector<BlockId>& table : state->block_ids) {
      table.resize(static_cast<std::size_t>(truncation.num_blocks) / pages_.size());
    }
  }
  for (const BlockReplacement& adopted : step.adopted_blocks) {
    QUIRE_RETURN_IF_ERROR(replace_block(adopted));
  }
  for (const RequestId id : step.removed_request_ids) {
    if (requests_.find(id) == nullptr) return unknown_request(id);
    requests_.erase(id);
  }
  for (const NewRequestData& data : step.new_requests) {
    if (requests_.find(data.request_id) != nullptr) {
      return Status::internal(fmt::format("request {} is new twice", data.request_id));
    }
    RequestState& state = requests_.insert(data.request_id);
    const auto tokens = step.tokens_of(data);
    state.token_ids.assign(tokens.begin(), tokens.end());
    for (std::vector<BlockId>& table : state.block_ids) table.clear();
    append_blocks(step.blocks_of(data), state);
    state.num_prompt_tokens = data.num_prompt_tokens;
    state.sample_index = data.sample_index;
    state.pooling = data.pooling;
    state.params = data.sampling_params;
  }
  for (const BlockReplacement& replacement : step.replaced_blocks) {
    QUIRE_RETURN_IF_ERROR(replace_block(replacement));
  }
  return {};
}

Status InputBatch::replace_block(const BlockReplacement& replacement) {
  RequestState* state = requests_.find(replacement.request_id);
  if (state == nullptr) return unknown_request(replacement.request_id);
  const auto index = static_cast<std::size_t>(replacement.index);
  state->block_ids[index % pages_.size()].at(index / pages_.size()) = replacement.block_id;
  return {};
}

// Entries behind a window are never read; any page stands for them.
void InputBatch::append_blocks(std::span<const BlockId> entries, RequestState& state) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    state.block_ids[i % state.block_ids.size()].push_back(std::max(entries[i], 0));
  }
}

// The drafts of the first path count as known until accept() says which of them are.
Status InputBatch::lay_out(const SchedulerOutput& step, const ScheduledRequest& scheduled,
                           RequestState& state) {
  const DraftTreeView drafts = step.drafts_of(scheduled);
  const std::int32_t num_followed = scheduled.num_drafts - scheduled.num_branched;
  const auto followed = drafts.tokens().first(static_cast<std::size_t>(num_followed));
  state.token_ids.insert(state.token_ids.end(), followed.begin(), followed.end());
  const std::int32_t begin = scheduled.num_computed_tokens;
  const std::int32_t end = scheduled.end();
  if (end > static_cast<std::int32_t>(state.token_ids.size()) ||
      end > static_cast<std::int32_t>(state.block_ids.back().size()) * block_size_) {
    return Status::internal(fmt::format(
        "request {}: tokens up to {} are scheduled; {} are known, {} blocks held",
        scheduled.request_id, end, state.token_ids.size(), state.block_ids.back().size()));
  }
  lay_out_tokens(begin, end, state);
  add_prompt_rows(scheduled, state);
  add_pool_rows(scheduled, state);
  if (scheduled.use != RowUse::kTokens) return {};
  const std::size_t num_known = state.token_ids.size() - followed.size();
  for (std::int32_t draft = 0; draft <= num_followed; ++draft) {
    add_sample_row(scheduled, draft,
                   std::span(state.token_ids).first(num_known + static_cast<std::size_t>(draft)),
                   state);
    if (draft == 0) sample_rows_.back().drafts = drafts;
  }
  return scheduled.num_branched > 0 ? lay_out_branches(step, scheduled, state) : Status();
}

std::int64_t InputBatch::slot_of(const Sequence& sequence, std::int32_t position,
                                 std::size_t page) const {
  const BlockId block = sequence.block_ids[page][static_cast<std::size_t>(position / block_size_)];
  return std::int64_t{block} * block_size_ + position % block_size_;
}

// What attention sees as one sequence, of which it computes these tokens.
void InputBatch::lay_out_tokens(std::int32_t begin, std::int32_t end, const Sequence& sequence) {
  for (std::int32_t i = begin; i < end; ++i) {
    token_ids_.push_back(sequence.token_ids[static_cast<std::size_t>(i)]);
    positions_.push_back(i);
  }
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    PageArrays& arrays = pages_[page];
    const std::vector<BlockId>& table = sequence.block_ids[page];
    arrays.block_tables.push_back(table.data());
    if (arrays.state) {
      append_state_runs(query_start_loc_.back(), begin, end, block_size_, table, arrays.state_runs);
      continue;
    }
    for (std::int32_t i = begin; i < end; ++i) {
      arrays.slot_mapping.push_back(slot_of(sequence, i, page));
    }
  }
  query_start_loc_.push_back(static_cast<std::int32_t>(token_ids_.size()));
  seq_lens_.push_back(end);
}

// Each other path is a sequence: tokens and blocks of the one that it leaves, then its own.
Status InputBatch::lay_out_branches(const SchedulerOutput& step, const ScheduledRequest& scheduled,
                                    const RequestState& state) {
  const DraftTreeView drafts = step.drafts_of(scheduled);
  paths_of(drafts, paths_);
  std::span<const BlockId> entries = step.branch_blocks_of(scheduled);
  const std::size_t first = num_branches_;
  for (const DraftPath& path : std::span(paths_).subspan(1)) {
    if (num_branches_ == branches_.size()) {
      return Status::internal(fmt::format("request {}: the step has more than {} other paths",
                                          scheduled.request_id, branches_.size()));
    }
    Sequence& branch = branches_[num_branches_++];
    const Sequence* parent = &state;
    if (path.parent > 0) parent = &branches_[first + static_cast<std::size_t>(path.parent) - 1];
    const std::int32_t begin = scheduled.end_without_drafts() - 1 + path.depth;
    const std::int32_t end = begin + path.count;
    const auto own = drafts.tokens().subspan(static_cast<std::size_t>(path.first),
                                             static_cast<std::size_t>(path.count));
    branch.token_ids.assign(parent->token_ids.begin(), parent->token_ids.begin() + begin);
    branch.token_ids.insert(branch.token_ids.end(), own.begin(), own.end());
    branch.block_ids = parent->block_ids;
    QUIRE_RETURN_IF_ERROR(take_branch_blocks(begin, end, entries, branch));
    repeat_tokens(scheduled, drafts, path, branch);
    lay_out_tokens(begin, end, branch);
    for (std::int32_t i = 0; i < path.count; ++i) {
      add_sample_row(scheduled, path.first + i + 1,
                     std::span(branch.token_ids).first(static_cast<std::size_t>(begin + i + 1)),
                     state);
    }
  }
  if (entries.empty()) return {};
  return Status::internal(fmt::format("request {}: {} blocks are of none of its paths",
                                      scheduled.request_id, entries.size()));
}

// The first of `entries`, in place of those of its tokens [begin, end).
Status InputBatch::take_branch_blocks(std::int32_t begin, std::int32_t end,
                                      std::span<const BlockId>& entries, Sequence& branch) const {
  for (auto block = static_cast<std::size_t>(begin / block_size_);
       block < static_cast<std::size_t>(ceil_div(end, block_size_)); ++block) {
    if (entries.size() < pages_.size() || block >= branch.block_ids.back().size()) {
      return Status::internal("a path of drafts has too few blocks");
    }
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      branch.block_ids[page][block] = entries[page];
    }
    entries = entries.subspan(pages_.size());
  }
  return {};
}

// What this step computes of a path before its own tokens, as far as that is in the first of its
// blocks. The rows of drafts follow that of the last known token.
void InputBatch::repeat_tokens(const ScheduledRequest& scheduled, DraftTreeView drafts,
                               const DraftPath& path, const Sequence& branch) {
  const std::int32_t known = scheduled.end_without_drafts() - 1;
  const std::int32_t begin = known + path.depth;
  const std::int64_t known_row =
      sample_rows_[sample_rows_.size() - 1].row - sample_rows_[sample_rows_.size() - 1].draft;
  std::int32_t node = drafts.parent(path.first);
  for (std::int32_t position = begin - 1;
       position >= std::max(known, begin / block_size_ * block_size_); --position) {
    repeated_rows_.push_back(known_row + 1 + node);
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      pages_[page].repeated_slots.push_back(slot_of(branch, position, page));
    }
    if (node != DraftTreeView::kRoot) node = drafts.parent(node);
  }
}

// Of the row that was laid out as that of the draft, whose tokens up to it are these.
void InputBatch::add_sample_row(const ScheduledRequest& scheduled, std::int32_t draft,
                                std::span<const TokenId> token_ids, const RequestState& state) {
  const std::int64_t known_row = draft == 0 ? static_cast<std::int64_t>(token_ids_.size()) - 1 -
                                                  scheduled.num_drafts + scheduled.num_branched
                                            : sample_rows_.back().row - sample_rows_.back().draft;
  sample_rows_.push_back(
      {.request_id = scheduled.request_id,
       .row = known_row + draft,
       .draft = draft,
       .drafts = {},
       .context = {.params = state.params.get(),
                   .token_ids = token_ids,
                   .num_prompt_tokens = state.num_prompt_tokens},
       .seed = state.params->seed.value_or(0) + static_cast<std::uint64_t>(state.sample_index)});
}

// The first of the n outputs reports for all. A prompt that is computed again after a preemption is
// reported again.
void InputBatch::add_prompt_rows(const ScheduledRequest& scheduled, const RequestState& state) {
  if (!state.params->prompt_logprobs || state.sample_index != 0) return;
  const std::int32_t count = scheduled.end() - scheduled.num_computed_tokens;
  const std::int64_t first_row = static_cast<std::int64_t>(token_ids_.size()) - count;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t position = scheduled.num_computed_tokens + i + 1;
    if (position >= state.num_prompt_tokens) break;
    prompt_rows_.push_back(
        {.request_id = scheduled.request_id,
         .row = first_row + i,
         .position = position,
         .token_id = state.token_ids[static_cast<std::size_t>(position)],
         .num_top_logprobs = static_cast<std::int32_t>(*state.params->prompt_logprobs)});
  }
}

void InputBatch::add_pool_rows(const ScheduledRequest& scheduled, const RequestState& state) {
  if (state.pooling == Pooling::kNone) return;
  const std::int64_t first_row =
      static_cast<std::int64_t>(token_ids_.size()) - scheduled.num_scheduled_tokens;
  for (std::int32_t i = 0; i < scheduled.num_scheduled_tokens; ++i) {
    if (!pools(state.pooling, scheduled.num_computed_tokens + i, state.num_prompt_tokens)) continue;
    pool_rows_.push_back({.request_id = scheduled.request_id, .row = first_row + i});
  }
}

Status InputBatch::prepare(const SchedulerOutput& step) {
  QUIRE_RETURN_IF_ERROR(apply_diffs(step));
  token_ids_.clear();
  positions_.clear();
  for (PageArrays& page : pages_) {
    page.slot_mapping.clear();
    page.state_runs.clear();
    page.repeated_slots.clear();
    page.block_tables.clear();
  }
  repeated_rows_.clear();
  num_branches_ = 0;
  query_start_loc_.assign(1, 0);
  seq_lens_.clear();
  sample_rows_.clear();
  pool_rows_.clear();
  prompt_rows_.clear();
  for (const ScheduledRequest& scheduled : step.scheduled) {
    RequestState* state = requests_.find(scheduled.request_id);
    if (state == nullptr) return unknown_request(scheduled.request_id);
    append_blocks(step.new_blocks_of(scheduled), *state);
    QUIRE_RETURN_IF_ERROR(lay_out(step, scheduled, *state));
  }
  return {};
}

Status InputBatch::apply_masks(std::span<const TokenMask> masks) {
  for (const TokenMask& mask : masks) {
    const auto row = std::ranges::find_if(sample_rows_, [&](const SampleRow& each) {
      return each.request_id == mask.request_id && each.draft == mask.draft;
    });
    if (row == sample_rows_.end()) {
      return Status::internal(
          fmt::format("there is a mask for request {} after {} drafts, where "
                      "nothing is sampled",
                      mask.request_id, mask.draft));
    }
    row->context.mask = mask.words;
  }
  return {};
}

void InputBatch::know_rows(std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) known_rows_.push_back(row);
}

void InputBatch::accept(std::vector<SampledToken>& sampled) {
  known_rows_.clear();
  std::int64_t row = 0;  // the first that is not settled
  auto kept = sampled.begin();
  std::size_t next = 0;  // the first row of a request
  while (next < sampled.size()) {
    const SampleRow& first = sample_rows_[next];
    std::vector<TokenId>& token_ids = requests_.find(first.request_id)->token_ids;
    token_ids.resize(first.context.token_ids.size());
    know_rows(row, first.row + 1);
    // A draft's row comes behind its parent's.
    for (std::optional<std::int32_t> node = DraftTreeView::kRoot; node;) {
      const SampledToken token = sampled[next + static_cast<std::size_t>(1 + *node)];
      token_ids.push_back(token.token_id);
      *kept++ = token;
      if (*node != DraftTreeView::kRoot) known_rows_.push_back(first.row + 1 + *node);
      node = first.drafts.child(*node, token.token_id);
    }
    row = first.row + 1 + first.drafts.size();
    next += static_cast<std::size_t>(1 + first.drafts.size());
  }
  know_rows(row, num_tokens());
  sampled.erase(kept, sampled.end());
}

AttentionBatch InputBatch::attention_batch() const {
  return {.num_seqs = static_cast<std::int32_t>(seq_lens_.size()),
          .query_start_loc = query_start_loc_.data(),
          .seq_lens = seq_lens_.data(),
          .block_tables = block_tables(),
          .block_size = block_size_};
}

}  // namespace quire
