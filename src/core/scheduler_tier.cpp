// Requests of whose prompt the tier below the KV cache has more than the cache: what they wait for,
// and what comes.
#include <algorithm>

#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {

// Blocks after those of `match`, where they save computing one block at least, and are there sooner
// than computed; which they are, as long as nobody has measured it. In a batch with fixed members
// nobody can be late.
KvCacheManager::TierMatch Scheduler::worth_fetching(
    const Request& request, const KvCacheManager::PrefixMatch& match) const {
  if (request.fetched() || config_.batching != Batching::kContinuous) return {};
  const auto found =
      kv_.match_tier(request.token_ids(), most_found(request), request.cache_scope(), match);
  const std::int32_t end = (match.num_blocks + found.num_blocks) * config_.block_size;
  if (end - match.num_tokens < config_.block_size) return {};
  StepWork work;
  work.add_prompt(match.num_tokens, end - match.num_tokens);
  const bool later = found.num_blocks * pace_.block_fetch >= pace_.cost.time_beside(work);
  return pace_.knows_fetches() && later ? KvCacheManager::TierMatch{} : found;
}

// nullptr: none does.
const KvFetch* Scheduler::fetch_that_brings(const BlockName& name) const {
  const auto found = std::ranges::find_if(fetches_, [&](const KvFetch& fetch) {
    return std::ranges::find(fetch.names, name[0]) != fetch.names.end();
  });
  return found == fetches_.end() ? nullptr : &*found;
}

// It waits outside the queue. Where another's fetch brings the first of the blocks, it waits for
// that one, and computes whatever is still missing then.
void Scheduler::begin_fetch(Request& request, const Admission& admission, SchedulerOutput& plan) {
  std::erase(waiting_, &request);
  fetching_.push_back(&request);
  if (const KvFetch* other = fetch_that_brings(admission.tier.first)) {
    return request.begin_fetch(other->id);
  }
  KvFetch& fetch = fetches_.emplace_back();
  fetch.id = ++last_fetch_id_;
  fetch.scope = request.cache_scope();
  fetch.num_cached = admission.match.num_blocks;
  const std::int32_t num_tokens =
      (fetch.num_cached + admission.tier.num_blocks) * config_.block_size;
  fetch.tokens.assign(request.token_ids().begin(), request.token_ids().begin() + num_tokens);
  const std::size_t num_before = plan.block_fetches.size();
  kv_.begin_fetch(fetch.id, request, admission.match, admission.tier.num_blocks, plan);
  for (const BlockFetch& each : std::span(plan.block_fetches).subspan(num_before)) {
    fetch.names.push_back(each.name[0]);
  }
  request.begin_fetch(fetch.id);
}

void Scheduler::take_in(const TierReport& report, Instant now) {
  kv_.tier().apply(report);
  for (const TierReport::Fetched& fetched : report.fetched) end_fetch(fetched, now);
  waits_for_fetch_ = false;
}

// Blocks of a model that is another one by now are of no use.
void Scheduler::end_fetch(const TierReport::Fetched& fetched, Instant now) {
  const auto found = std::ranges::find(fetches_, fetched.fetch_id, &KvFetch::id);
  if (found == fetches_.end()) return;
  const KvFetch fetch = std::move(*found);
  fetches_.erase(found);
  const auto num_asked = static_cast<std::int32_t>(fetch.names.size());
  const std::int32_t num_blocks =
      kv_.tier().on() ? std::clamp(fetched.num_blocks, 0, num_asked) : 0;
  ++counters_.num_kv_fetches;
  counters_.blocks_fetched += num_blocks;
  counters_.blocks_fetch_failed += num_asked - num_blocks;
  kv_.end_fetch(fetch.id, fetch.tokens, fetch.scope,
                kv_.tier().on() ? fetch.num_cached + num_blocks : 0);
  const auto waits = [&](const Request* request) { return request->fetch_id() == fetch.id; };
  for (auto next = std::ranges::find_if(fetching_, waits); next != fetching_.end();
       next = std::ranges::find_if(fetching_, waits)) {
    Request& request = **next;
    fetching_.erase(next);
    // Another's may have brought more than its own tokens.
    request.end_fetch(std::min(num_blocks * config_.block_size, request.num_tokens()));
    enqueue(request);
    hold(request, WaitCause::kQueueOrder, {}, now);
  }
}

std::int64_t Scheduler::num_rows_fetching() const {
  std::int64_t num_rows = 0;
  for (const Request* request : fetching_) num_rows += request->max_rows();
  return num_rows;
}

// It starts. What was fetched may have gone again, or have come with another's prompt.
void Scheduler::count_tier(const Request& request, std::int32_t num_computed_tokens) {
  if (!config_.kv_tier) return;
  const std::int32_t num_fetched = std::min(request.num_fetched_tokens(), num_computed_tokens);
  counters_.external_prefix_cache_queries +=
      request.num_tokens() - num_computed_tokens + num_fetched;
  counters_.external_prefix_cache_hits += num_fetched;
}

// Each fetch holds its blocks, and each request outside the queue waits for one of them.
Status Scheduler::check_fetches() const {
  const auto broken = [](FetchId id, std::string_view why) {
    return Status::internal(fmt::format("fetch {}: {}", id, why));
  };
  for (const KvFetch& fetch : fetches_) {
    const BlockTable* table = kv_.find(KvCacheManager::fetch_table(fetch.id));
    const std::int64_t num_blocks = fetch.num_cached + std::ssize(fetch.names);
    if (table == nullptr || table->size() != num_blocks || fetch.num_cached < 0 ||
        std::ssize(fetch.tokens) != num_blocks * config_.block_size) {
      return broken(fetch.id, "it does not hold its blocks");
    }
    if (fetch.id == 0 || fetch.id > last_fetch_id_) return broken(fetch.id, "it never began");
    for (std::int32_t i = fetch.num_cached; i < table->size(); ++i) {
      if (kv_.findable(table->at(i)) || kv_.pool().shared(table->at(i))) {
        return broken(fetch.id, "others see a block that has not come yet");
      }
    }
  }
  for (const Request* request : fetching_) {
    const bool waits =
        std::ranges::find(fetches_, request->fetch_id(), &KvFetch::id) != fetches_.end();
    if (!waits || kv_.find(request->id()) != nullptr || request->num_scheduled_tokens() != 0 ||
        (request->state() != RequestState::kWaiting &&
         request->state() != RequestState::kPreempted)) {
      return broken(request->fetch_id(), "a request waits for it that cannot");
    }
  }
  for (const auto& [id, request] : requests_) {
    const bool fetches = request->fetch_id() != 0;
    if (fetches != (std::ranges::find(fetching_, request.get()) != fetching_.end())) {
      return broken(request->fetch_id(), fmt::format("request {} is in the wrong queue", id));
    }
  }
  return {};
}

}  // namespace quire
