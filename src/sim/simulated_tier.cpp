#include "sim/simulated_tier.h"

#include <algorithm>
#include <utility>

#include "sim/broken_plan.h"

namespace quire {

Status SimulatedTier::begin(const SchedulerOutput& plan, Instant now) {
  for (const BlockStore& each : plan.block_stores) QUIRE_RETURN_IF_ERROR(store(each));
  for (const BlockFetch& each : plan.block_fetches) {
    if (fetches_.empty() || fetches_.back().id != each.fetch_id) {
      const Instant start = fetches_.empty() ? now : std::max(now, fetches_.back().end);
      fetches_.push_back({.id = each.fetch_id, .begin = now, .end = start, .blocks = {}});
    }
    fetches_.back().blocks.push_back(each);
    fetches_.back().end += config_.block_time;
    for (std::uint64_t& slot : page(each.block_id)) {
      slot = static_cast<std::uint64_t>(random_.between(0, std::int64_t{1} << 62));
    }
  }
  return {};
}

Status SimulatedTier::store(const BlockStore& block) {
  if (config_.max_blocks == 0) return broken_plan("block {} has nowhere to go", block.block_id);
  const auto span = page(block.block_id);
  std::vector<std::uint64_t> content(span.begin(), span.end());
  if (block_size_ > 0) {
    const auto [seen, is_new] = seen_.try_emplace(block.name, content);
    if (!is_new && seen->second != content) {
      return broken_plan("block {} has the name of another content", block.block_id);
    }
  }
  if (random_.chance(config_.loss)) {
    report_.removed.push_back(block.name[0]);
    return {};
  }
  if (!blocks_.try_emplace(block.name, std::move(content)).second) return {};
  order_.push_back(block.name);
  if (std::ssize(order_) > config_.max_blocks) forget(order_.front());
  return {};
}

void SimulatedTier::forget(const BlockName& name) {
  const BlockName gone = name;
  report_.removed.push_back(gone[0]);
  blocks_.erase(gone);
  order_.erase(std::ranges::find(order_, gone));
}

bool SimulatedTier::take_report(TierReport& report, Instant now) {
  report = std::exchange(report_, {});
  while (!fetches_.empty() && fetches_.front().end <= now) {
    end(fetches_.front(), report);
    fetches_.pop_front();
  }
  return !report.empty();
}

void SimulatedTier::end(const Fetch& fetch, TierReport& report) {
  fetch_time_ += fetch.end - fetch.begin;
  std::int32_t num_blocks = 0;
  for (const BlockFetch& each : fetch.blocks) {
    const auto found = blocks_.find(each.name);
    if (found == blocks_.end() || random_.chance(config_.loss)) {
      report.removed.push_back(each.name[0]);
      if (found != blocks_.end()) {
        order_.erase(std::ranges::find(order_, each.name));
        blocks_.erase(found);
      }
      break;
    }
    std::ranges::copy(found->second, page(each.block_id).begin());
    ++num_blocks;
  }
  report.fetched.push_back({fetch.id, num_blocks, fetch.end - fetch.begin});
}

std::optional<Instant> SimulatedTier::next_end() const {
  return fetches_.empty() ? std::nullopt : std::optional(fetches_.front().end);
}

}  // namespace quire
