#include "core/scheduler_snapshot.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {
namespace {

// Far beyond what is real, and small enough that memory suffices and no sum overflows.
constexpr std::int64_t kMaxPoolTokens = std::int64_t{1} << 28;
constexpr std::int64_t kMaxTableEntries = std::int64_t{1} << 27;
constexpr std::int32_t kMaxModelLen = 1 << 24;
constexpr std::int32_t kMaxSeqs = 1 << 16;
constexpr std::int32_t kMaxSteps = 16;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 56;

Status check_size(const SchedulerConfig& config) {
  const std::int64_t width = pages_per_block(config.kv_groups);
  const std::int64_t table_blocks = width * ceil_div(config.max_model_len, config.block_size);
  if (config.num_blocks * (config.block_size + width) > kMaxPoolTokens ||
      config.max_model_len > kMaxModelLen || config.max_num_seqs > kMaxSeqs ||
      config.max_steps_in_flight > kMaxSteps ||
      table_blocks * config.max_num_seqs > kMaxTableEntries) {
    return Status::resource_exhausted(fmt::format(
        "a scheduler of {} sequences of {} tokens with {} blocks of {} is larger than any real one",
        config.max_num_seqs, config.max_model_len, config.num_blocks, config.block_size));
  }
  if (!plausible(config.max_batch_delay)) {
    return Status::invalid_argument("max_batch_delay is out of range");
  }
  return {};
}

Status check_counters(const SchedulerStats& counters) {
  bool bad = false;
  visit_counters(counters,
                 [&](std::int64_t count) { bad = bad || count < 0 || count > kMaxCount; });
  if (bad) {
    return Status::invalid_argument("a counter of the scheduler is out of range");
  }
  if (counters.draft_tokens != counters.draft_tokens_accepted + counters.draft_tokens_rejected) {
    return Status::invalid_argument("drafts were neither accepted nor rejected");
  }
  return {};
}

BeamsSnapshot snapshot_of(const Beams& beams) {
  const auto running = beams.search.beams();
  const auto finished = beams.search.finished();
  return {.beams = {running.begin(), running.end()},
          .finished = {finished.begin(), finished.end()},
          .rows = beams.rows.snapshot(),
          .num_common_tokens = beams.num_common_tokens,
          .num_forks = beams.search.report().num_forks};
}

}  // namespace

KvCacheManager::Snapshot KvCacheManager::snapshot() const {
  Snapshot snapshot;
  snapshot.free_block_ids = pool_.free_block_ids();
  snapshot.index = index_.snapshot();
  snapshot.tier = tier_.snapshot();
  for (BlockId id = 0; id < pool_.num_blocks(); ++id) {
    if (withheld(id)) snapshot.withheld_block_ids.push_back(id);
  }
  snapshot.tables.reserve(tables_.size());
  for (const auto& [request_id, table] : tables_) {
    Snapshot::Table& each = snapshot.tables.emplace_back();
    each.request_id = request_id;
    each.block_ids = table.blocks.block_ids();
    each.num_passed_tokens = table.num_passed_tokens;
    for (const PrefixIndex::Node node : table.nodes) {
      if (!index_.alive(node)) break;  // and so are those after it
      each.nodes.push_back(node.id);
    }
  }
  std::ranges::sort(snapshot.tables, {}, &Snapshot::Table::request_id);
  return snapshot;
}

Status KvCacheManager::restore(const Snapshot& snapshot) {
  if (!enable_prefix_caching_ && !snapshot.index.nodes.empty()) {
    return Status::invalid_argument("there are cached prefixes, and prefix caching is off");
  }
  QUIRE_RETURN_IF_ERROR(index_.restore(snapshot.index));
  std::vector<std::int32_t> references(static_cast<std::size_t>(pool_.num_blocks()), 0);
  for (const Snapshot::Table& table : snapshot.tables) {
    QUIRE_RETURN_IF_ERROR(restore_table(table));
    for (const BlockId id : table.block_ids) {
      if (id != kNullBlock) ++references[static_cast<std::size_t>(id)];
    }
  }
  // What is to be written next may be found only where it stays others'.
  for (const Snapshot::Table& table : snapshot.tables) {
    const auto blocks = std::span(table.block_ids);
    const std::size_t next = table.nodes.size() * static_cast<std::size_t>(pages_per_block_);
    if (next == blocks.size()) continue;
    for (const BlockId id : blocks.subspan(next, static_cast<std::size_t>(pages_per_block_))) {
      if (id == kNullBlock || !findable(id) || references[static_cast<std::size_t>(id)] > 1) {
        continue;
      }
      return Status::invalid_argument(
          fmt::format("the block table of request {}: an early cached block", table.request_id));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(pool_, BlockPool::restore(references, snapshot.free_block_ids));
  if (snapshot.tier.on && !tier_.on()) {
    return Status::invalid_argument("there is a lower tier, and the settings have none");
  }
  tier_.restore(snapshot.tier);
  for (const BlockId id : snapshot.withheld_block_ids) {
    if (withheld_.empty() || id < 0 || id >= pool_.num_blocks() || pool_.reference_count(id) > 0 ||
        !findable(id)) {
      return Status::invalid_argument(fmt::format("block {} is withheld from no tier", id));
    }
    withheld_[static_cast<std::size_t>(id)] = true;
  }
  count_uses();
  return {};
}

Status KvCacheManager::restore_table(const Snapshot::Table& table) {
  const auto broken = [&](std::string_view why) {
    return Status::invalid_argument(
        fmt::format("the block table of request {}: {}", table.request_id, why));
  };
  const auto width = static_cast<std::size_t>(pages_per_block_);
  if (find(table.request_id) != nullptr) return broken("there are two");
  if (table.block_ids.size() % width != 0) return broken("a block without all of its pages");
  const std::size_t num_blocks = table.block_ids.size() / width;
  if (table.nodes.size() > num_blocks) return broken("more nodes than blocks");
  if (!enable_prefix_caching_ && !table.nodes.empty())
    return broken("nodes without a prefix cache");
  if (table.num_passed_tokens < 0 ||
      table.num_passed_tokens > static_cast<std::int64_t>(num_blocks) * block_size_) {
    return broken("it has passed tokens that it never had");
  }
  for (std::size_t i = 0; i < table.block_ids.size(); ++i) {
    const BlockId id = table.block_ids[i];
    const auto block = static_cast<std::int32_t>(i / width);
    const std::size_t group = group_of(static_cast<std::int32_t>(i % width));
    if ((id == kNullBlock) != (block < first_block(group, table.num_passed_tokens))) {
      return broken("it does not hold what lies within a window");
    }
    if (id == kNullBlock) continue;
    if (id < 0 || id >= pool_.num_blocks()) return broken("a block that does not exist");
    if (i / width > table.nodes.size() && findable(id)) return broken("an early cached block");
  }
  Table& restored = new_table(table.request_id);
  restored.num_passed_tokens = table.num_passed_tokens;
  for (const BlockId id : table.block_ids) {
    restored.blocks.append(id);
    num_held_ += id == kNullBlock ? 0 : 1;
  }
  PrefixIndex::Node parent;
  for (const PrefixIndex::NodeId id : table.nodes) {
    const auto node = index_.restored_node(id);
    if (!node || index_.parent(*node) != parent || index_.num_tokens(*node) != block_size_) {
      return broken("a node that is not its own");
    }
    restored.nodes.push_back(*node);
    parent = *node;
  }
  return {};
}

// From the tables, the pool and the index, which are restored.
void KvCacheManager::count_uses() {
  std::vector<bool> counted(static_cast<std::size_t>(pool_.num_blocks()), false);
  for (const auto& [request_id, table] : tables_) {
    const auto& entries = table.blocks.block_ids();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i] == kNullBlock || counted[static_cast<std::size_t>(entries[i])]) continue;
      counted[static_cast<std::size_t>(entries[i])] = true;
      ++uses_[group_of(static_cast<std::int32_t>(i) % pages_per_block_)].num_used;
    }
  }
  for (BlockId id = 0; id < pool_.num_blocks(); ++id) {
    if (pool_.reference_count(id) > 0 || !findable(id)) continue;
    ++uses_[index_.group_of(id)].num_cached;
  }
}

RequestSnapshot Request::snapshot() const {
  return {.request_id = identity_.id,
          .external_id = external_id_,
          .sample_index = identity_.sample_index,
          .group_id = identity_.group_id,
          .arrival_index = identity_.arrival_index,
          .state = state_,
          .sampling_params = sampling_params_,
          .token_ids = token_ids_,
          .num_prompt_tokens = num_prompt_tokens_,
          .pooling = pooling_,
          .num_computed_tokens = num_computed_tokens_,
          .max_computed_so_far = max_computed_so_far_,
          .priority = priority_,
          .cache_scope = cache_scope_,
          .user = user_,
          .deadline = deadline_,
          .num_cached_tokens = num_cached_tokens_,
          .num_preemptions = num_preemptions_,
          .num_recomputed_tokens = num_recomputed_tokens_,
          .num_accepted_drafts = num_accepted_drafts_,
          .num_rejected_drafts = num_rejected_drafts_,
          .step_time = step_time_,
          .arrival = arrival_,
          .first_scheduled = first_scheduled_,
          .first_token = first_token_,
          .timeline = timeline_.snapshot(),
          .beams = beams_ ? std::optional(snapshot_of(*beams_)) : std::nullopt,
          .fetch_id = fetch_id_,
          .fetched = fetched_,
          .num_fetched_tokens = num_fetched_tokens_,
          .pin = pin_};
}

Result<std::unique_ptr<Request>> Request::restore(RequestSnapshot snapshot,
                                                  std::span<const TokenId> eos_token_ids,
                                                  std::int32_t max_model_len) {
  const auto broken = [&](std::string_view why) {
    return Status::invalid_argument(fmt::format("request {}: {}", snapshot.request_id, why));
  };
  if (snapshot.sampling_params == nullptr) return broken("it has no parameters");
  const Status valid = snapshot.sampling_params->validate(std::numeric_limits<TokenId>::max(),
                                                          std::numeric_limits<std::int64_t>::max());
  if (!valid.ok()) return broken(valid.message());
  const auto num_tokens = std::ssize(snapshot.token_ids);
  const std::int64_t num_prompt = snapshot.num_prompt_tokens;
  if (num_prompt < 1 || num_prompt > num_tokens ||
      num_prompt >= max_model_len + (snapshot.pooling != Pooling::kNone ? 1 : 0)) {
    return broken("its prompt has a length that cannot be");
  }
  if (snapshot.sample_index < 0 || snapshot.sample_index >= snapshot.sampling_params->n ||
      snapshot.state == RequestState::kFinished) {
    return broken("its index or state cannot be");
  }
  const bool running = snapshot.state == RequestState::kRunning;
  if (snapshot.num_computed_tokens < 0 || snapshot.num_computed_tokens >= num_tokens ||
      (snapshot.num_computed_tokens > 0 && !running) ||
      snapshot.max_computed_so_far < snapshot.num_computed_tokens ||
      snapshot.max_computed_so_far > num_tokens || snapshot.num_cached_tokens < 0 ||
      snapshot.num_cached_tokens >= num_prompt || snapshot.num_preemptions < 0 ||
      snapshot.num_preemptions > 1 << 30 || snapshot.num_recomputed_tokens < 0 ||
      snapshot.num_fetched_tokens < 0 || snapshot.num_fetched_tokens > num_tokens ||
      snapshot.num_recomputed_tokens > kMaxCount || snapshot.num_accepted_drafts < 0 ||
      snapshot.num_accepted_drafts > kMaxCount || snapshot.num_rejected_drafts < 0 ||
      snapshot.num_rejected_drafts > kMaxCount) {
    return broken("its counts of tokens cannot be");
  }
  for (const auto& instant :
       {std::optional(snapshot.arrival), snapshot.first_scheduled, snapshot.first_token}) {
    if (instant && !plausible(*instant)) return broken("a time is out of range");
  }
  if (!plausible(snapshot.deadline)) return broken("its deadline is out of range");
  if (snapshot.step_time < Duration::zero() || !plausible(snapshot.step_time)) {
    return broken("its time of steps is out of range");
  }
  auto timeline = RequestTimeline::restore(snapshot.timeline);
  if (!timeline.ok()) return broken(timeline.status().message());
  const auto prompt_end = snapshot.token_ids.begin() + snapshot.num_prompt_tokens;
  const AddRequest added = {.request_id = snapshot.request_id,
                            .prompt_token_ids = {snapshot.token_ids.begin(), prompt_end},
                            .sampling_params = std::move(snapshot.sampling_params),
                            .priority = snapshot.priority,
                            .cache_scope = snapshot.cache_scope,
                            .user = std::move(snapshot.user),
                            .deadline = snapshot.deadline,
                            .pooling = snapshot.pooling,
                            .external_id = std::move(snapshot.external_id),
                            .pin = snapshot.pin};
  const OutputIdentity identity = {.id = snapshot.request_id,
                                   .sample_index = snapshot.sample_index,
                                   .group_id = snapshot.group_id,
                                   .arrival_index = snapshot.arrival_index};
  auto request =
      std::make_unique<Request>(added, identity, eos_token_ids, max_model_len, snapshot.arrival);
  if (num_tokens - num_prompt > 0 && num_tokens - num_prompt >= request->max_output_tokens_) {
    return broken("it has more output than it may have");
  }
  request->token_ids_.insert(request->token_ids_.end(), prompt_end, snapshot.token_ids.end());
  if (request->is_beam_search() != snapshot.beams.has_value()) return broken("its beams are lost");
  if (snapshot.beams) QUIRE_RETURN_IF_ERROR(request->restore_beams(*std::move(snapshot.beams)));
  request->state_ = snapshot.state;
  request->num_computed_tokens_ = snapshot.num_computed_tokens;
  request->max_computed_so_far_ = snapshot.max_computed_so_far;
  request->num_cached_tokens_ = snapshot.num_cached_tokens;
  request->num_preemptions_ = snapshot.num_preemptions;
  request->fetch_id_ = snapshot.fetch_id;
  request->fetched_ = snapshot.fetched;
  request->num_fetched_tokens_ = snapshot.num_fetched_tokens;
  request->num_recomputed_tokens_ = snapshot.num_recomputed_tokens;
  request->num_accepted_drafts_ = snapshot.num_accepted_drafts;
  request->num_rejected_drafts_ = snapshot.num_rejected_drafts;
  request->step_time_ = snapshot.step_time;
  request->first_scheduled_ = snapshot.first_scheduled;
  request->first_token_ = snapshot.first_token;
  request->timeline_ = std::move(*timeline);
  if (request->beams_) request->timeline_.explain(request->beams_->search.report());
  return request;
}

// Its tokens are those of the best beam.
Status Request::restore_beams(BeamsSnapshot snapshot) {
  const auto prompt = std::span(token_ids_).first(static_cast<std::size_t>(num_prompt_tokens_));
  QUIRE_ASSIGN_OR_RETURN(
      auto search,
      BeamSearch::restore(beams_->search.rules(), prompt, num_tokens(), std::move(snapshot.beams),
                          std::move(snapshot.finished), snapshot.num_forks));
  QUIRE_ASSIGN_OR_RETURN(auto rows,
                         BeamRows::restore(snapshot.rows, id(), max_rows(), search.beams().size()));
  if (search.beams()[0].token_ids != token_ids_ ||
      snapshot.num_common_tokens < num_prompt_tokens_ ||
      snapshot.num_common_tokens > search.num_common_tokens()) {
    return Status::invalid_argument(fmt::format("request {}: its beams have other tokens", id()));
  }
  *beams_ = {.search = std::move(search),
             .rows = std::move(rows),
             .num_common_tokens = snapshot.num_common_tokens};
  return {};
}

Result<SchedulerSnapshot> Scheduler::snapshot() const {
  if (!steps_.empty()) {
    return Status::internal(
        fmt::format("a snapshot was asked for while step {} is in flight", steps_[0].id));
  }
  SchedulerSnapshot snapshot;
  snapshot.config = config_;
  snapshot.pace = pace_;
  snapshot.kv = kv_.snapshot();
  for (const Request* request : running_) snapshot.running.push_back(request->snapshot());
  for (const Request* request : waiting_) snapshot.waiting.push_back(request->snapshot());
  for (const Request* request : fetching_) snapshot.fetching.push_back(request->snapshot());
  snapshot.fetches = fetches_;
  snapshot.last_fetch_id = last_fetch_id_;
  snapshot.waits_for_fetch = waits_for_fetch_;
  snapshot.num_vacancies = batch_.num_vacancies();
  snapshot.last_start = batch_.last_start();
  snapshot.retained = retained_.snapshot();
  snapshot.pins.assign(pinned_.all().begin(), pinned_.all().end());
  snapshot.removed_request_ids = removed_request_ids_;
  snapshot.truncated_tables = truncated_tables_;
  snapshot.adopted_blocks = adopted_blocks_;
  snapshot.num_arrivals = num_arrivals_;
  snapshot.shares = shares_.snapshot();
  snapshot.num_overtaken = num_overtaken_;
  snapshot.counters = counters_;
  return snapshot;
}

Result<std::unique_ptr<Scheduler>> Scheduler::restore(SchedulerSnapshot snapshot) {
  QUIRE_RETURN_IF_ERROR(snapshot.config.validate());
  QUIRE_RETURN_IF_ERROR(check_size(snapshot.config));
  QUIRE_RETURN_IF_ERROR(check_counters(snapshot.counters));
  QUIRE_RETURN_IF_ERROR(snapshot.pace.validate());
  auto scheduler = std::make_unique<Scheduler>(std::move(snapshot.config));
  scheduler->pace_ = snapshot.pace;
  QUIRE_RETURN_IF_ERROR(scheduler->kv_.restore(snapshot.kv));
  scheduler->num_arrivals_ = snapshot.num_arrivals;
  scheduler->counters_ = snapshot.counters;
  QUIRE_RETURN_IF_ERROR(scheduler->shares_.restore(snapshot.shares));
  if (snapshot.num_overtaken < 0) {
    return Status::invalid_argument("the first request was overtaken less than never");
  }
  scheduler->num_overtaken_ = snapshot.num_overtaken;
  QUIRE_RETURN_IF_ERROR(
      scheduler->restore_requests(snapshot.running, RequestState::kRunning, scheduler->running_));
  QUIRE_RETURN_IF_ERROR(
      scheduler->restore_requests(snapshot.waiting, RequestState::kWaiting, scheduler->waiting_));
  QUIRE_RETURN_IF_ERROR(
      scheduler->restore_requests(snapshot.fetching, RequestState::kWaiting, scheduler->fetching_));
  if (snapshot.last_fetch_id >= static_cast<FetchId>(kMaxCount)) {
    return Status::invalid_argument("more fetches began than can have");
  }
  scheduler->fetches_ = std::move(snapshot.fetches);
  scheduler->last_fetch_id_ = snapshot.last_fetch_id;
  scheduler->waits_for_fetch_ = snapshot.waits_for_fetch && !scheduler->fetches_.empty();
  if (snapshot.num_vacancies < 0 || snapshot.num_vacancies > scheduler->config_.max_num_seqs) {
    return Status::invalid_argument("a batch has more vacancies than it can have");
  }
  if (snapshot.last_start < 0 || snapshot.last_start > snapshot.counters.num_steps) {
    return Status::invalid_argument("a request first ran in a step that never was");
  }
  scheduler->batch_.restore(snapshot.num_vacancies, snapshot.last_start);
  QUIRE_RETURN_IF_ERROR(scheduler->retained_.restore(std::move(snapshot.retained)));
  scheduler->pinned_.restore(std::move(snapshot.pins));
  scheduler->removed_request_ids_.assign(snapshot.removed_request_ids.begin(),
                                         snapshot.removed_request_ids.end());
  scheduler->truncated_tables_ = std::move(snapshot.truncated_tables);
  scheduler->adopted_blocks_ = std::move(snapshot.adopted_blocks);
  if (const Status status = scheduler->check_invariants(); !status.ok()) {
    return Status::invalid_argument("the snapshot is of no scheduler: " + status.message());
  }
  return scheduler;
}

// Into an empty queue, in their order. A preempted request waits, too.
Status Scheduler::restore_requests(std::vector<RequestSnapshot>& requests, RequestState state,
                                   std::vector<Request*>& queue) {
  queue.reserve(std::max(requests.size(), static_cast<std::size_t>(config_.max_num_seqs)));
  for (RequestSnapshot& each : requests) {
    if (each.request_id >= KvCacheManager::fetch_table(0) || each.arrival_index >= num_arrivals_ ||
        each.group_id > each.arrival_index ||
        (each.state == RequestState::kRunning) != (state == RequestState::kRunning)) {
      return Status::invalid_argument(
          fmt::format("request {} cannot be in its queue", each.request_id));
    }
    QUIRE_ASSIGN_OR_RETURN(auto request, Request::restore(std::move(each), config_.eos_token_ids,
                                                          config_.max_model_len));
    if (config_.policy == SchedulingPolicy::kFair) {
      request->set_share(shares_.rejoin(request->user()));
      if (request->share() == nullptr) {
        return Status::invalid_argument(
            fmt::format("request {} is of a user without a share", request->id()));
      }
      request->share()->num_running += state == RequestState::kRunning ? 1 : 0;
    }
    queue.push_back(request.get());
    const RequestId id = request->id();
    if (!requests_.emplace(id, std::move(request)).second) {
      return Status::invalid_argument(fmt::format("request {} is there twice", id));
    }
  }
  return {};
}

}  // namespace quire
