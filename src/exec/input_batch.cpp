#include "exec/input_batch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {
namespace {

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
  requests_.reserve(sequences, [&](RequestState& state) {
    state.token_ids.reserve(length);
    state.block_ids.resize(pages_.size());
    for (std::vector<BlockId>& table : state.block_ids) {
      table.reserve(static_cast<std::size_t>(ceil_div(limits.max_model_len, block_size_)));
    }
  });
  token_ids_.reserve(tokens);
  positions_.reserve(tokens);
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    PageArrays& page = pages_[i];
    page.state = i + static_cast<std::size_t>(limits.state_pages) >= pages_.size();
    if (page.state) {
      page.state_runs.reserve(tokens);
    } else {
      page.slot_mapping.reserve(tokens);
    }
    page.block_tables.reserve(sequences);
  }
  query_start_loc_.reserve(sequences + 1);
  seq_lens_.reserve(sequences);
  sample_rows_.reserve(tokens);
  pool_rows_.reserve(tokens);
  prompt_rows_.reserve(tokens);
}

void InputBatch::prefault() {
  const auto touch = [](auto& values) {
    values.resize(values.capacity());
    values.clear();
  };
  requests_.reserve(static_cast<std::size_t>(max_num_seqs_), [&](RequestState& state) {
    touch(state.token_ids);
    for (std::vector<BlockId>& table : state.block_ids) touch(table);
  });
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
  const std::uint64_t per_sequence = length * sizeof(TokenId) + pages * per_page_of_sequence +
                                     sizeof(RequestState) + 2 * sizeof(std::int32_t);
  const std::uint64_t per_token =
      sizeof(TokenId) + sizeof(std::int32_t) + (pages - states) * sizeof(std::int64_t) +
      states * sizeof(StateRun) + sizeof(SampleRow) + sizeof(PromptRow) + sizeof(PoolRow);
  return sequences * per_sequence + tokens * per_token;
}

Status InputBatch::apply_diffs(const SchedulerOutput& step) {
  for (const BlockTruncation& truncation : step.truncated_tables) {
    RequestState* state = requests_.find(truncation.request_id);
    if (state == nullptr) return unknown_request(truncation.request_id);
    for (std::vector<BlockId>& table : state->block_ids) {
      table.resize(static_cast<std::size_t>(truncation.num_blocks) / pages_.size());
    }
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
    RequestState* state = requests_.find(replacement.request_id);
    if (state == nullptr) return unknown_request(replacement.request_id);
    const auto index = static_cast<std::size_t>(replacement.index);
    state->block_ids[index % pages_.size()].at(index / pages_.size()) = replacement.block_id;
  }
  return {};
}

// Entries behind a window are never read; any page stands for them.
void InputBatch::append_blocks(std::span<const BlockId> entries, RequestState& state) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    state.block_ids[i % state.block_ids.size()].push_back(std::max(entries[i], 0));
  }
}

// Drafts count as known until accept() says which of them are.
Status InputBatch::lay_out(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                           RequestState& state) {
  state.token_ids.insert(state.token_ids.end(), drafts.begin(), drafts.end());
  const std::int32_t begin = scheduled.num_computed_tokens;
  const std::int32_t end = begin + scheduled.num_scheduled_tokens;
  if (end > static_cast<std::int32_t>(state.token_ids.size()) ||
      end > static_cast<std::int32_t>(state.block_ids.back().size()) * block_size_) {
    return Status::internal(fmt::format(
        "request {}: tokens up to {} are scheduled; {} are known, {} blocks held",
        scheduled.request_id, end, state.token_ids.size(), state.block_ids.back().size()));
  }
  for (std::int32_t i = begin; i < end; ++i) {
    token_ids_.push_back(state.token_ids[static_cast<std::size_t>(i)]);
    positions_.push_back(i);
  }
  for (std::size_t page = 0; page < pages_.size(); ++page) lay_out_page(page, begin, end, state);
  query_start_loc_.push_back(static_cast<std::int32_t>(token_ids_.size()));
  seq_lens_.push_back(end);
  add_prompt_rows(scheduled, state);
  add_pool_rows(scheduled, state);
  if (scheduled.use == RowUse::kTokens) add_sample_rows(scheduled, state);
  return {};
}

void InputBatch::lay_out_page(std::size_t page, std::int32_t begin, std::int32_t end,
                              const RequestState& state) {
  const std::vector<BlockId>& table = state.block_ids[page];
  PageArrays& arrays = pages_[page];
  arrays.block_tables.push_back(table.data());
  if (arrays.state) {
    append_state_runs(query_start_loc_.back(), begin, end, block_size_, table, arrays.state_runs);
    return;
  }
  for (std::int32_t i = begin; i < end; ++i) {
    const BlockId block = table[static_cast<std::size_t>(i / block_size_)];
    arrays.slot_mapping.push_back(std::int64_t{block} * block_size_ + i % block_size_);
  }
}

void InputBatch::add_sample_rows(const ScheduledRequest& scheduled, const RequestState& state) {
  const std::span<const TokenId> tokens = state.token_ids;
  for (std::int32_t draft = 0; draft <= scheduled.num_drafts; ++draft) {
    const std::int32_t num_left = scheduled.num_drafts - draft;
    const std::size_t num_before = tokens.size() - static_cast<std::size_t>(num_left);
    sample_rows_.push_back(
        {.request_id = scheduled.request_id,
         .row = static_cast<std::int64_t>(token_ids_.size()) - 1 - num_left,
         .draft = draft,
         .guess = num_left > 0 ? tokens[num_before] : -1,
         .context = {.params = state.params.get(),
                     .token_ids = tokens.first(num_before),
                     .num_prompt_tokens = state.num_prompt_tokens},
         .seed = state.params->seed.value_or(0) + static_cast<std::uint64_t>(state.sample_index)});
  }
}

// The first of the n outputs reports for all. A prompt that is computed again after a preemption is
// reported again.
void InputBatch::add_prompt_rows(const ScheduledRequest& scheduled, const RequestState& state) {
  if (!state.params->prompt_logprobs || state.sample_index != 0) return;
  const std::int64_t first_row =
      static_cast<std::int64_t>(token_ids_.size()) - scheduled.num_scheduled_tokens;
  for (std::int32_t i = 0; i < scheduled.num_scheduled_tokens; ++i) {
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
    page.block_tables.clear();
  }
  query_start_loc_.assign(1, 0);
  seq_lens_.clear();
  sample_rows_.clear();
  pool_rows_.clear();
  prompt_rows_.clear();
  for (const ScheduledRequest& scheduled : step.scheduled) {
    RequestState* state = requests_.find(scheduled.request_id);
    if (state == nullptr) return unknown_request(scheduled.request_id);
    append_blocks(step.new_blocks_of(scheduled), *state);
    QUIRE_RETURN_IF_ERROR(lay_out(scheduled, step.drafts_of(scheduled), *state));
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

void InputBatch::accept(std::vector<SampledToken>& sampled) {
  auto kept = sampled.begin();
  RequestState* state = nullptr;  // null: what was guessed was wrong
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    const SampleRow& row = sample_rows_[i];
    if (row.draft == 0) {
      state = requests_.find(row.request_id);
      state->token_ids.resize(row.context.token_ids.size());
    }
    if (state == nullptr) continue;
    const SampledToken token = sampled[i];
    state->token_ids.push_back(token.token_id);
    *kept++ = token;
    if (row.guess != token.token_id) state = nullptr;
  }
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
