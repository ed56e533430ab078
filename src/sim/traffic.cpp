#include "sim/traffic.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "sim/workload.h"

namespace quire {
namespace {

constexpr std::uint64_t kTrafficVocab = kNoOutput;
// Of what belongs to one arrival alone; ids of pieces come from elsewhere and are mixed alike.
constexpr std::uint64_t kOwnTokens = 0x4F574E;
constexpr std::uint64_t kOutputTokens = 0x4F5554;

TokenId made_token(std::uint64_t id, std::uint64_t index) {
  return static_cast<TokenId>(random_bits(id, index) % kTrafficVocab);
}

std::int64_t spread_length(RandomStream& random, std::int64_t mean, LengthSpread spread) {
  switch (spread) {
    case LengthSpread::kFixed:
      return mean;
    case LengthSpread::kUniform:
      return random.between(mean - mean / 2, mean + mean / 2);
    case LengthSpread::kGeometric:
      break;
  }
  if (mean == 1) return 1;
  const double stop = 1 / static_cast<double>(mean);
  return 1 + static_cast<std::int64_t>(std::log1p(-random.uniform()) / std::log1p(-stop));
}

}  // namespace

std::vector<TokenId> prompt_of(const Traffic& traffic, std::size_t index) {
  const Arrival& arrival = traffic.arrivals[index];
  if (!arrival.token_ids.empty()) {
    return {arrival.token_ids.begin(), arrival.token_ids.begin() + arrival.input_len};
  }
  std::vector<TokenId> tokens(static_cast<std::size_t>(arrival.input_len));
  const auto piece_len = static_cast<std::size_t>(traffic.piece_len);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t piece = i / piece_len;
    tokens[i] = piece < arrival.pieces.size()
                    ? made_token(mix64(arrival.pieces[piece]), i % piece_len)
                    : made_token(mix64(kOwnTokens ^ (std::uint64_t{index} << 24)), i);
  }
  return tokens;
}

TokenId output_of(const Traffic& traffic, std::size_t index, std::int64_t place) {
  const std::vector<TokenId>& known = traffic.arrivals[index].token_ids;
  if (place < std::ssize(known)) return known[static_cast<std::size_t>(place)];
  return made_token(mix64(kOutputTokens ^ (std::uint64_t{index} + 1)),
                    static_cast<std::uint64_t>(place));
}

Traffic make_traffic(const TrafficConfig& config) {
  RandomStream random(config.seed);
  Traffic traffic;
  traffic.piece_len = static_cast<std::int32_t>(std::max<std::int64_t>(config.prefix_len, 1));
  traffic.source = "made up";
  traffic.arrivals.reserve(static_cast<std::size_t>(config.num_requests));
  double now = 0;  // seconds
  for (std::int64_t i = 0; i < config.num_requests; ++i) {
    if (config.qps > 0) now -= std::log1p(-random.uniform()) / config.qps;
    Arrival arrival;
    arrival.time = Instant(static_cast<Instant::rep>(now * 1e9));
    std::int64_t input = spread_length(random, config.input_len, config.spread);
    if (config.num_prefixes > 0) {
      input += config.prefix_len;
      arrival.pieces = {static_cast<std::uint64_t>(random.between(1, config.num_prefixes))};
    }
    const std::int64_t output = spread_length(random, config.output_len, config.spread);
    arrival.input_len =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(input, 1, config.max_len - 1));
    arrival.output_len = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(output, 1, config.max_len - arrival.input_len));
    traffic.arrivals.push_back(std::move(arrival));
  }
  return traffic;
}

}  // namespace quire
