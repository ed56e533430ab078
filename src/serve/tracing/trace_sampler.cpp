#include "serve/tracing/trace_sampler.h"

#include <charconv>

#include <fmt/format.h>

namespace quire {

Result<TraceSampler> TraceSampler::create(std::string_view name, std::string_view ratio) {
  constexpr std::string_view kParentBased = "parentbased_";
  TraceSampler sampler;
  std::string_view root = name;
  sampler.parent_decides_ = root.starts_with(kParentBased);
  if (sampler.parent_decides_) root.remove_prefix(kParentBased.size());
  if (root == "always_on") return sampler;
  if (root == "always_off") {
    sampler.ratio_ = 0;
    return sampler;
  }
  if (root != "traceidratio") {
    return Status::unimplemented(
        fmt::format("there is no sampler \"{}\"", name.substr(0, 60)),
        "take always_on, always_off or traceidratio, or one of them after parentbased_");
  }
  if (ratio.empty()) return sampler;
  const char* end = ratio.data() + ratio.size();
  const auto [rest, error] = std::from_chars(ratio.data(), end, sampler.ratio_);
  if (error != std::errc() || rest != end || !(sampler.ratio_ >= 0 && sampler.ratio_ <= 1)) {
    return Status::invalid_argument(
        fmt::format("\"{}\" is not a share of traces from 0 to 1", ratio.substr(0, 60)));
  }
  return sampler;
}

// The share is read from the last 8 bytes of the trace's id, so that services with the same share
// record the same traces.
bool TraceSampler::sample(const std::optional<TraceContext>& parent,
                          const TraceId& trace_id) const {
  if (parent_decides_ && parent) return parent->sampled();
  if (ratio_ >= 1) return true;
  std::uint64_t value = 0;
  for (std::size_t i = 8; i < trace_id.size(); ++i) value = value << 8 | trace_id[i];
  return static_cast<double>(value) < ratio_ * 0x1p64;
}

}  // namespace quire
