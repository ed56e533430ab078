// What the simulated executor does for drafts alone: trees of them, and tokens that were taken
// back.
#include <algorithm>
#include <utility>

#include "sim/broken_plan.h"
#include "sim/simulated_executor.h"

namespace quire {

// Entries that were given to a request's drafts in its last step become its own.
Status SimulatedExecutor::adopt(const SchedulerOutput& plan) {
  for (const BlockReplacement& adopted : plan.adopted_blocks) {
    const auto found = requests_.find(adopted.request_id);
    if (found == requests_.end() || adopted.index < 0 ||
        adopted.index >= std::ssize(found->second.block_ids) ||
        std::ranges::count(found->second.branch_block_ids, adopted.block_id) != 1) {
      return broken_plan("request {}: block {} at {} is none of its drafts'", adopted.request_id,
                         adopted.block_id, adopted.index);
    }
    BlockId& entry = found->second.block_ids[static_cast<std::size_t>(adopted.index)];
    if (entry == kNullBlock) continue;  // a window has passed it meanwhile
    let_go(entry);
    entry = adopted.block_id;
    ++num_holders_[static_cast<std::size_t>(entry)];
  }
  return {};
}

Status SimulatedExecutor::truncate(const SchedulerOutput& plan) {
  for (const auto& [request_id, num_blocks] : plan.truncated_tables) {
    const auto found = requests_.find(request_id);
    if (found == requests_.end() || num_blocks < 0 ||
        num_blocks >= std::ssize(found->second.block_ids)) {
      return broken_plan("{} blocks of request {} are to be left, which has no more", num_blocks,
                         request_id);
    }
    std::vector<BlockId>& block_ids = found->second.block_ids;
    for (; std::ssize(block_ids) > num_blocks; block_ids.pop_back()) let_go(block_ids.back());
  }
  return {};
}

// Until the step is over; what its drafts have written may be adopted later.
Status SimulatedExecutor::hold_branches(const SchedulerOutput& plan,
                                        const ScheduledRequest& scheduled, RequestCopy& request) {
  request.branch_block_ids.clear();
  if (scheduled.num_branch_blocks == 0) return {};
  const std::int64_t end = std::int64_t{scheduled.first_new_block} + scheduled.num_new_blocks +
                           scheduled.num_branch_blocks;
  if (scheduled.num_branch_blocks < 0 || end > std::ssize(plan.new_block_ids)) {
    return broken_plan("the drafts of request {} are given blocks that the plan lacks",
                       scheduled.request_id);
  }
  for (const BlockId page : plan.branch_blocks_of(scheduled)) {
    if (!valid(page)) {
      return broken_plan("the drafts of request {} are given block {}, which does not exist",
                         scheduled.request_id, page);
    }
    request.branch_block_ids.push_back(page);
    ++num_holders_[static_cast<std::size_t>(page)];
  }
  return {};
}

// Each other path is a request of its own: the table of the path that it leaves with its blocks in
// their places, where the step's tokens before it are copied to, and then its own tokens.
Status SimulatedExecutor::compute_branches(const SchedulerOutput& plan,
                                           const ScheduledRequest& scheduled,
                                           const RequestCopy& request) {
  if (scheduled.num_branched == 0) return {};
  const DraftTreeView drafts = plan.drafts_of(scheduled);
  const std::int32_t known = scheduled.end_without_drafts();
  std::vector<DraftPath> paths;
  paths_of(drafts, paths);
  std::vector<RequestCopy> copies = {request};
  std::span<const BlockId> pages = request.branch_block_ids;
  const auto width = static_cast<std::int32_t>(group_of_page_.size());
  for (const DraftPath& path : std::span(paths).subspan(1)) {
    const std::int32_t begin = known - 1 + path.depth;
    const std::int32_t end = known - 1 + path.end_depth();
    const RequestCopy& parent = copies[static_cast<std::size_t>(path.parent)];
    RequestCopy copy = parent;
    copy.token_ids.resize(static_cast<std::size_t>(begin));
    copy.history.resize(static_cast<std::size_t>(begin));
    for (std::int32_t i = 0; i < path.count; ++i) append(drafts.token(path.first + i), copy);
    const std::int32_t first_block = begin / config_.block_size;
    const std::int32_t end_block = (end + config_.block_size - 1) / config_.block_size;
    const auto count = static_cast<std::size_t>((end_block - first_block) * width);
    if (count > pages.size() || std::ssize(copy.block_ids) < std::int64_t{end_block} * width) {
      return broken_plan("request {}: there are too few blocks for its drafts",
                         scheduled.request_id);
    }
    std::ranges::copy(pages.first(count),
                      copy.block_ids.begin() + std::int64_t{first_block} * width);
    pages = pages.subspan(count);
    for (std::size_t page = 0; page < group_of_page_.size(); ++page) {
      for (std::int32_t at = std::max(known - 1, first_block * config_.block_size); at < begin;
           ++at) {
        const auto i = static_cast<std::size_t>(at);
        kept(page, page_of(copy, i, page), i) = kept(page, page_of(parent, i, page), i);
      }
      QUIRE_RETURN_IF_ERROR(read(scheduled.request_id, copy, begin, page));
      QUIRE_RETURN_IF_ERROR(write(scheduled.request_id, copy, begin, end, page));
    }
    copies.push_back(std::move(copy));
  }
  if (!pages.empty()) {
    return broken_plan("request {}: {} blocks are of none of its drafts", scheduled.request_id,
                       pages.size());
  }
  return {};
}

}  // namespace quire
