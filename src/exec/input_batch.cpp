#include "exec/input_batch.h"

#include <fmt/format.h>

namespace quire {
namespace {

Status unknown_request(RequestId id) {
  return Status::internal(fmt::format("the step names request {}, which is not known", id));
}

}  // namespace

InputBatch::InputBatch(std::int32_t block_size, std::int64_t max_num_batched_tokens,
                       std::int64_t max_num_seqs)
    : block_size_(block_size) {
  const auto tokens = static_cast<std::size_t>(max_num_batched_tokens);
  const auto sequences = static_cast<std::size_t>(max_num_seqs);
  token_ids_.reserve(tokens);
  positions_.reserve(tokens);
  slot_mapping_.reserve(tokens);
  query_start_loc_.reserve(sequences + 1);
  seq_lens_.reserve(sequences);
  block_tables_.reserve(sequences);
  sample_rows_.reserve(sequences);
}

Status InputBatch::apply_diffs(const SchedulerOutput& step) {
  for (const RequestId id : step.removed_request_ids) requests_.erase(id);
  for (const NewRequestData& data : step.new_requests) {
    RequestState state;
    state.token_ids.assign(data.token_ids.begin(), data.token_ids.end());
    const auto blocks = step.blocks_of(data);
    state.block_ids.assign(blocks.begin(), blocks.end());
    state.num_prompt_tokens = data.num_prompt_tokens;
    state.sample_index = data.sample_index;
    state.params = data.sampling_params;
    if (!requests_.emplace(data.request_id, std::move(state)).second) {
      return Status::internal(fmt::format("request {} is new twice", data.request_id));
    }
  }
  for (const BlockReplacement& replacement : step.replaced_blocks) {
    const auto it = requests_.find(replacement.request_id);
    if (it == requests_.end()) return unknown_request(replacement.request_id);
    it->second.block_ids.at(static_cast<std::size_t>(replacement.index)) = replacement.block_id;
  }
  return {};
}

Status InputBatch::lay_out(const ScheduledRequest& scheduled, const RequestState& state) {
  const std::int32_t begin = scheduled.num_computed_tokens;
  const std::int32_t end = begin + scheduled.num_scheduled_tokens;
  if (end > static_cast<std::int32_t>(state.token_ids.size()) ||
      end > static_cast<std::int32_t>(state.block_ids.size()) * block_size_) {
    return Status::internal(
        fmt::format("request {}: tokens up to {} are scheduled; {} are known, {} blocks held",
                    scheduled.request_id, end, state.token_ids.size(), state.block_ids.size()));
  }
  for (std::int32_t i = begin; i < end; ++i) {
    token_ids_.push_back(state.token_ids[static_cast<std::size_t>(i)]);
    positions_.push_back(i);
    const BlockId block = state.block_ids[static_cast<std::size_t>(i / block_size_)];
    slot_mapping_.push_back(static_cast<std::int64_t>(block) * block_size_ + i % block_size_);
  }
  query_start_loc_.push_back(static_cast<std::int32_t>(token_ids_.size()));
  seq_lens_.push_back(end);
  block_tables_.push_back(state.block_ids.data());
  if (scheduled.samples) {
    sample_rows_.push_back(
        {.request_id = scheduled.request_id,
         .row = static_cast<std::int64_t>(token_ids_.size()) - 1,
         .output_position =
             static_cast<std::int64_t>(state.token_ids.size()) - state.num_prompt_tokens,
         .params = state.params.get(),
         .seed = state.params->seed.value_or(0) + static_cast<std::uint64_t>(state.sample_index)});
  }
  return {};
}

Status InputBatch::prepare(const SchedulerOutput& step) {
  QUIRE_RETURN_IF_ERROR(apply_diffs(step));
  token_ids_.clear();
  positions_.clear();
  slot_mapping_.clear();
  query_start_loc_.assign(1, 0);
  seq_lens_.clear();
  block_tables_.clear();
  sample_rows_.clear();
  for (const ScheduledRequest& scheduled : step.scheduled) {
    const auto it = requests_.find(scheduled.request_id);
    if (it == requests_.end()) return unknown_request(scheduled.request_id);
    RequestState& state = it->second;
    const auto new_blocks = step.new_blocks_of(scheduled);
    state.block_ids.insert(state.block_ids.end(), new_blocks.begin(), new_blocks.end());
    QUIRE_RETURN_IF_ERROR(lay_out(scheduled, state));
  }
  return {};
}

void InputBatch::append_token(RequestId request_id, TokenId token) {
  const auto it = requests_.find(request_id);
  if (it != requests_.end()) it->second.token_ids.push_back(token);
}

AttentionBatch InputBatch::attention_batch() const {
  return {.num_seqs = static_cast<std::int32_t>(seq_lens_.size()),
          .query_start_loc = query_start_loc_.data(),
          .seq_lens = seq_lens_.data(),
          .block_tables = block_tables_.data()};
}

}  // namespace quire
