#include "sim/simulated_executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "sim/broken_plan.h"

namespace quire {
namespace {

// The first token from `token` on, around the vocabulary, that the mask allows; one is.
TokenId next_allowed(std::span<const std::uint32_t> mask, TokenId token, std::int32_t vocab_size) {
  for (std::int32_t i = 0; i < vocab_size; ++i) {
    const TokenId each = (token + i) % vocab_size;
    const auto index = static_cast<std::size_t>(each);
    if (index / 32 < mask.size() && (mask[index / 32] >> (index % 32) & 1) != 0) return each;
  }
  return token;
}

}  // namespace

std::uint64_t extend_history(std::uint64_t history, TokenId token_id) {
  return random_bits(history, static_cast<std::uint64_t>(token_id));
}

std::uint64_t simulated_stream(const SamplingParams& params, std::int32_t sample_index) {
  if (params.greedy()) return 0;
  return params.seed.value_or(0) + static_cast<std::uint64_t>(sample_index);
}

TokenId simulated_token(std::uint64_t history, std::uint64_t stream, std::int32_t vocab_size) {
  return static_cast<TokenId>(random_bits(mix64(history), stream) %
                              static_cast<std::uint64_t>(vocab_size));
}

float simulated_logprob(std::uint64_t history, TokenId token_id) {
  // The token's complement: other numbers than those of extend_history.
  const double uniform = random_uniform(history, ~static_cast<std::uint64_t>(token_id));
  return static_cast<float>(std::log1p(-uniform) - 1e-3);
}

float simulated_state(std::uint64_t history, std::size_t index) {
  return static_cast<float>(2 * random_uniform(mix64(~history), index) - 1);
}

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorConfig& config, VirtualClock& clock)
    : config_(config),
      clock_(clock),
      slots_(static_cast<std::size_t>(config.num_blocks) *
             static_cast<std::size_t>(config.block_size)),
      num_holders_(static_cast<std::size_t>(config.num_blocks)),
      tier_(config.tier, slots_, static_cast<std::size_t>(config.block_size)) {
  for (const KvGroup& group : config.kv_groups) {
    group_of_page_.insert(group_of_page_.end(), static_cast<std::size_t>(group.pages_per_block),
                          group);
  }
}

Status SimulatedExecutor::execute(const SchedulerOutput& plan, ModelRunnerOutput& result) {
  QUIRE_RETURN_IF_ERROR(submit(plan));
  QUIRE_RETURN_IF_ERROR(sample({}));
  return collect(result);
}

Status SimulatedExecutor::submit(const SchedulerOutput& plan) {
  if (plan.step_id <= last_step_) {
    return broken_plan("step {} comes after step {}", plan.step_id, last_step_);
  }
  last_step_ = plan.step_id;
  QUIRE_RETURN_IF_ERROR(truncate(plan));
  QUIRE_RETURN_IF_ERROR(adopt(plan));
  QUIRE_RETURN_IF_ERROR(forget(plan));
  for (const NewRequestData& data : plan.new_requests) QUIRE_RETURN_IF_ERROR(learn(data, plan));
  QUIRE_RETURN_IF_ERROR(tier_.begin(plan, clock_.now()));
  QUIRE_RETURN_IF_ERROR(copy_blocks(plan));
  // All tables first: a block shared by two of this step's requests must not be written.
  QUIRE_RETURN_IF_ERROR(append_blocks(plan));

  Step step;
  step.result.step_id = plan.step_id;
  step.time = config_.step_time + config_.token_time * plan.total_num_scheduled_tokens;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    RequestCopy& request = requests_.at(scheduled.request_id);
    const DraftTreeView drafts = plan.drafts_of(scheduled);
    const std::size_t num_known = request.token_ids.size();
    for (std::int32_t i = 0; i < num_on_first_path(drafts); ++i) append(drafts.token(i), request);
    QUIRE_RETURN_IF_ERROR(check_scheduled(scheduled, request));
    QUIRE_RETURN_IF_ERROR(compute(scheduled, request));
    QUIRE_RETURN_IF_ERROR(compute_branches(plan, scheduled, request));
    if (request.prompt_logprobs) report_prompt(scheduled, request, step.result);
    if (scheduled.use == RowUse::kState) pool(scheduled, request, step.result);
    if (scheduled.use != RowUse::kTokens) continue;
    request.token_ids.resize(num_known);
    request.history.resize(num_known);
    const std::uint64_t history = request.history.back();
    sample_tokens(scheduled.request_id, drafts, {}, request, step.result.sampled);
    if (request.num_beam_candidates > 0) {
      add_candidates(history, request.num_beam_candidates, step.result);
    }
    if (!drafts.empty()) step.drafts[scheduled.request_id].assign(drafts);
  }
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    RequestCopy& request = requests_.at(scheduled.request_id);
    for (const BlockId page : request.branch_block_ids) let_go(page);
    let_go_behind_windows(request);
  }
  steps_.push_back(std::move(step));
  return {};
}

// Tokens were sampled when the step was submitted: those of rows with a mask are undone, and
// sampled again. No later step has been computed from them, for none is planned where a mask is.
Status SimulatedExecutor::sample(std::span<const TokenMask> masks) {
  if (num_masked_ >= steps_.size()) return broken_plan("there is no step that may sample");
  Step& step = steps_[num_masked_++];
  if (masks.empty()) return {};
  std::vector<SampledToken> sampled;
  std::span<const SampledToken> before = step.result.sampled;
  std::size_t num_used = 0;
  while (!before.empty()) {
    const RequestId id = before.front().request_id;
    std::size_t count = 0;
    while (count < before.size() && before[count].request_id == id) ++count;
    const auto own = std::ranges::count(masks, id, &TokenMask::request_id);
    if (own == 0) {
      sampled.insert(sampled.end(), before.begin(),
                     before.begin() + static_cast<std::ptrdiff_t>(count));
    } else {
      RequestCopy& request = requests_.at(id);
      request.token_ids.resize(request.token_ids.size() - count);
      request.history.resize(request.token_ids.size());
      sample_tokens(id, step.drafts[id].view(), masks, request, sampled);
      num_used += static_cast<std::size_t>(own);
    }
    before = before.subspan(count);
  }
  step.result.sampled = std::move(sampled);
  if (num_used != masks.size())
    return broken_plan("{} masks are of no row", masks.size() - num_used);
  return {};
}

Status SimulatedExecutor::collect(ModelRunnerOutput& result) {
  if (steps_.empty()) return broken_plan("a result is collected where no step is in flight");
  clock_.advance(steps_.front().time);
  std::swap(result, steps_.front().result);
  steps_.pop_front();
  if (num_masked_ > 0) --num_masked_;
  return {};
}

void SimulatedExecutor::append(TokenId token, RequestCopy& request) {
  const std::uint64_t before = request.history.empty() ? 0 : request.history.back();
  request.token_ids.push_back(token);
  request.history.push_back(extend_history(before, token));
}

// At each position, as long as what was sampled is what was guessed.
void SimulatedExecutor::sample_tokens(RequestId request_id, DraftTreeView drafts,
                                      std::span<const TokenMask> masks, RequestCopy& request,
                                      std::vector<SampledToken>& sampled) const {
  std::int32_t i = 0;
  for (std::optional<std::int32_t> node = DraftTreeView::kRoot; node; ++i) {
    const std::uint64_t history = request.history.back();
    TokenId token = simulated_token(history, request.stream, config_.vocab_size);
    const auto mask = std::ranges::find_if(masks, [&](const TokenMask& each) {
      return each.request_id == request_id && each.draft == i;
    });
    if (mask != masks.end()) token = next_allowed(mask->words, token, config_.vocab_size);
    append(token, request);
    sampled.push_back({.request_id = request_id,
                       .token_id = token,
                       .logprob = simulated_logprob(history, token)});
    node = drafts.child(*node, token);
  }
  request.num_computed_tokens = static_cast<std::int32_t>(request.token_ids.size()) - 1;
}

// Of the token that was sampled last.
void SimulatedExecutor::add_candidates(std::uint64_t history, std::int64_t count,
                                       ModelRunnerOutput& result) const {
  std::vector<TokenLogprob> all(static_cast<std::size_t>(config_.vocab_size));
  for (TokenId id = 0; id < config_.vocab_size; ++id) {
    all[static_cast<std::size_t>(id)] = {id, simulated_logprob(history, id), 0};
  }
  const auto end = all.begin() + std::min<std::int64_t>(count, std::ssize(all));
  std::partial_sort(all.begin(), end, all.end(), [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.token_id < b.token_id;
  });
  SampledToken& token = result.sampled.back();
  token.is_beam = true;
  token.first_top_logprob = static_cast<std::int32_t>(result.top_logprobs.size());
  token.num_top_logprobs = static_cast<std::int32_t>(end - all.begin());
  result.top_logprobs.insert(result.top_logprobs.end(), all.begin(), end);
}

Status SimulatedExecutor::forget(const SchedulerOutput& plan) {
  for (const RequestId request_id : plan.removed_request_ids) {
    const auto found = requests_.find(request_id);
    if (found == requests_.end()) {
      return broken_plan("request {} is removed, but unknown", request_id);
    }
    for (const BlockId block_id : found->second.block_ids) let_go(block_id);
    requests_.erase(found);
  }
  return {};
}

Status SimulatedExecutor::learn(const NewRequestData& data, const SchedulerOutput& plan) {
  if (data.num_tokens < 1 || data.num_prompt_tokens < 1 ||
      data.num_prompt_tokens > data.num_tokens) {
    return broken_plan("new request {} has {} tokens, {} of them prompt", data.request_id,
                       data.num_tokens, data.num_prompt_tokens);
  }
  if (data.sampling_params == nullptr) {
    return broken_plan("new request {} has no sampling parameters", data.request_id);
  }
  const auto [entry, is_new] = requests_.try_emplace(data.request_id);
  if (!is_new) return broken_plan("request {} is new, but known", data.request_id);
  RequestCopy& request = entry->second;
  for (const TokenId token : plan.tokens_of(data)) append(token, request);
  request.stream = simulated_stream(*data.sampling_params, data.sample_index);
  request.prompt_logprobs = data.sampling_params->prompt_logprobs.has_value();
  request.num_beam_candidates =
      data.sampling_params->num_beam_candidates(config_.num_eos_token_ids);
  request.num_prompt_tokens = data.num_prompt_tokens;
  request.pooling = data.pooling;
  return hold(data.request_id, request, plan, data.first_block, data.num_blocks);
}

Status SimulatedExecutor::hold(RequestId request_id, RequestCopy& request,
                               const SchedulerOutput& plan, std::int32_t first,
                               std::int32_t count) {
  if (first < 0 || count < 0 || std::int64_t{first} + count > std::ssize(plan.new_block_ids)) {
    return broken_plan("request {} is given blocks [{}, {}) of {}", request_id, first,
                       std::int64_t{first} + count, plan.new_block_ids.size());
  }
  for (std::int32_t i = first; i < first + count; ++i) {
    const BlockId block_id = plan.new_block_ids[static_cast<std::size_t>(i)];
    const KvGroup& group = group_of_page_[request.block_ids.size() % group_of_page_.size()];
    if (block_id == kNullBlock && !group.keeps_all()) {
      request.block_ids.push_back(block_id);
      continue;
    }
    if (!valid(block_id)) {
      return broken_plan("request {} is given block {}, which does not exist", request_id,
                         block_id);
    }
    request.block_ids.push_back(block_id);
    ++num_holders_[static_cast<std::size_t>(block_id)];
  }
  return {};
}

// A replaced block must be a copy of what was there.
Status SimulatedExecutor::copy_blocks(const SchedulerOutput& plan) {
  for (const BlockReplacement& replaced : plan.replaced_blocks) {
    const auto found = requests_.find(replaced.request_id);
    if (found == requests_.end()) {
      return broken_plan("request {} gets another block, but is unknown", replaced.request_id);
    }
    std::vector<BlockId>& block_ids = found->second.block_ids;
    const auto index = static_cast<std::size_t>(replaced.index);
    const auto is_made_here = [&](const BlockCopy& copy) {
      return copy.source == block_ids[index] && copy.destination == replaced.block_id;
    };
    if (replaced.index < 0 || index >= block_ids.size() || !valid(replaced.block_id) ||
        std::none_of(plan.block_copies.begin(), plan.block_copies.end(), is_made_here)) {
      return broken_plan("request {}: block {} at {} is no copy of what was there",
                         replaced.request_id, replaced.block_id, replaced.index);
    }
    --num_holders_[static_cast<std::size_t>(block_ids[index])];
    ++num_holders_[static_cast<std::size_t>(replaced.block_id)];
    block_ids[index] = replaced.block_id;
  }
  for (const auto [source, destination] : plan.block_copies) {
    if (!valid(source) || !valid(destination)) {
      return broken_plan("block {} is copied to {}, and one of them does not exist", source,
                         destination);
    }
    std::copy_n(slots_.begin() + std::int64_t{source} * config_.block_size, config_.block_size,
                slots_.begin() + std::int64_t{destination} * config_.block_size);
  }
  return {};
}

Status SimulatedExecutor::append_blocks(const SchedulerOutput& plan) {
  std::int64_t num_scheduled_tokens = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const auto found = requests_.find(scheduled.request_id);
    if (found == requests_.end()) {
      return broken_plan("request {} is scheduled, but unknown", scheduled.request_id);
    }
    RequestCopy& request = found->second;
    if (request.last_step == plan.step_id) {
      return broken_plan("request {} is scheduled twice in step {}", scheduled.request_id,
                         plan.step_id);
    }
    request.last_step = plan.step_id;
    QUIRE_RETURN_IF_ERROR(hold(scheduled.request_id, request, plan, scheduled.first_new_block,
                               scheduled.num_new_blocks));
    QUIRE_RETURN_IF_ERROR(hold_branches(plan, scheduled, request));
    num_scheduled_tokens += scheduled.num_scheduled_tokens;
  }
  if (num_scheduled_tokens != plan.total_num_scheduled_tokens) {
    return broken_plan("step {} announces {} tokens and schedules {}", plan.step_id,
                       plan.total_num_scheduled_tokens, num_scheduled_tokens);
  }
  return {};
}

Status SimulatedExecutor::check_scheduled(const ScheduledRequest& scheduled,
                                          const RequestCopy& request) const {
  const std::int64_t num_tokens = std::ssize(request.history);
  const std::int64_t end = scheduled.end();
  if (scheduled.num_scheduled_tokens <= 0 || scheduled.num_computed_tokens < 0 ||
      end > num_tokens) {
    return broken_plan("request {}: tokens [{}, {}) of {} are scheduled", scheduled.request_id,
                       scheduled.num_computed_tokens, end, num_tokens);
  }
  if (request.computed_before && scheduled.num_computed_tokens != request.num_computed_tokens) {
    return broken_plan("request {}: {} tokens are computed, the plan says {}", scheduled.request_id,
                       request.num_computed_tokens, scheduled.num_computed_tokens);
  }
  if (!request.computed_before && scheduled.num_computed_tokens > 0 &&
      pools(request.pooling, 0, request.num_prompt_tokens)) {
    return broken_plan("request {}: the state of its first token, which is pooled, is not computed",
                       scheduled.request_id);
  }
  if ((scheduled.use != RowUse::kNothing) != (end == num_tokens)) {
    return broken_plan("request {}: {} of {} tokens will be computed for {}", scheduled.request_id,
                       end, num_tokens, row_use_name(scheduled.use));
  }
  if (scheduled.num_branched < 0 || scheduled.num_branched >= scheduled.num_scheduled_tokens) {
    return broken_plan("request {}: {} of {} tokens are on other paths", scheduled.request_id,
                       scheduled.num_branched, scheduled.num_scheduled_tokens);
  }
  if (scheduled.num_drafts > 0 && (scheduled.use != RowUse::kTokens ||
                                   scheduled.num_drafts >= scheduled.num_scheduled_tokens)) {
    return broken_plan("request {}: {} of {} tokens are drafts, for {}", scheduled.request_id,
                       scheduled.num_drafts, scheduled.num_scheduled_tokens,
                       row_use_name(scheduled.use));
  }
  if (scheduled.use == RowUse::kState && num_tokens != request.num_prompt_tokens) {
    return broken_plan("request {}: pooled after {} output tokens", scheduled.request_id,
                       num_tokens - request.num_prompt_tokens);
  }
  if (std::ssize(request.block_ids) * config_.block_size < end * std::ssize(group_of_page_)) {
    return broken_plan("request {}: {} blocks do not hold {} tokens", scheduled.request_id,
                       request.block_ids.size(), end);
  }
  return {};
}

// Writes the scheduled slots, having read all earlier ones as attention would.
Status SimulatedExecutor::compute(const ScheduledRequest& scheduled, RequestCopy& request) {
  for (std::size_t page = 0; page < group_of_page_.size(); ++page) {
    QUIRE_RETURN_IF_ERROR(read(scheduled.request_id, request, scheduled.num_computed_tokens, page));
    QUIRE_RETURN_IF_ERROR(
        write(scheduled.request_id, request, scheduled.num_computed_tokens, scheduled.end(), page));
  }
  request.num_computed_tokens = scheduled.end();
  request.computed_before = true;
  return {};
}

Status SimulatedExecutor::read(RequestId request_id, const RequestCopy& request,
                               std::int32_t num_tokens, std::size_t page) {
  const auto end = static_cast<std::size_t>(num_tokens);
  const auto window = static_cast<std::size_t>(group_of_page_[page].window);
  // The first scheduled token is itself the last that it reads.
  for (std::size_t i = window > 0 && end >= window ? end - window + 1 : 0; i < end; ++i) {
    const BlockId block_id = page_of(request, i, page);
    if (block_id == kNullBlock || kept(page, block_id, i) != request.history[i]) {
      return broken_plan("request {}: block {} does not hold what token {} has left", request_id,
                         block_id, i);
    }
  }
  return {};
}

Status SimulatedExecutor::write(RequestId request_id, const RequestCopy& request,
                                std::int32_t begin, std::int32_t end, std::size_t page) {
  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
    const BlockId block_id = page_of(request, i, page);
    if (block_id == kNullBlock) {
      return broken_plan("request {} has no block for token {}", request_id, i);
    }
    if (num_holders_[static_cast<std::size_t>(block_id)] != 1) {
      return broken_plan("request {} writes token {} into block {}, which {} tables hold",
                         request_id, i, block_id, num_holders_[static_cast<std::size_t>(block_id)]);
    }
    kept(page, block_id, i) = request.history[i];
  }
  return {};
}

// No later token reads it.
void SimulatedExecutor::let_go_behind_windows(RequestCopy& request) {
  for (std::size_t entry = 0; entry < request.block_ids.size(); ++entry) {
    const KvGroup& group = group_of_page_[entry % group_of_page_.size()];
    const auto block = static_cast<std::int32_t>(entry / group_of_page_.size());
    if (block >= group.first_block(request.num_computed_tokens, config_.block_size)) continue;
    let_go(request.block_ids[entry]);
    request.block_ids[entry] = kNullBlock;
  }
}

void SimulatedExecutor::pool(const ScheduledRequest& scheduled, const RequestCopy& request,
                             ModelRunnerOutput& result) const {
  const auto size = static_cast<std::size_t>(config_.hidden_size);
  result.pooled.push_back(
      {.request_id = scheduled.request_id, .first = result.hidden_states.size(), .size = size});
  for (std::size_t i = 0; i < size; ++i) {
    result.hidden_states.push_back(simulated_state(request.history.back(), i));
  }
}

// A computed token tells how probable the next one was.
void SimulatedExecutor::report_prompt(const ScheduledRequest& scheduled, const RequestCopy& request,
                                      ModelRunnerOutput& result) {
  const std::int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
  for (std::int32_t position = scheduled.num_computed_tokens + 1;
       position <= std::min(end, request.num_prompt_tokens - 1); ++position) {
    const auto i = static_cast<std::size_t>(position);
    const TokenId token = request.token_ids[i];
    PromptToken& reported = result.prompt_tokens.emplace_back();
    reported.request_id = scheduled.request_id;
    reported.position = position;
    reported.token.token_id = token;
    reported.token.logprob = simulated_logprob(request.history[i - 1], token);
  }
}

const std::vector<BlockId>* SimulatedExecutor::find_block_ids(RequestId request_id) const {
  const auto found = requests_.find(request_id);
  return found == requests_.end() ? nullptr : &found->second.block_ids;
}

}  // namespace quire
