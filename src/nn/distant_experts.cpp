#include "nn/distant_experts.h"

#include <span>
#include <utility>

#include "tensor/arena.h"

namespace quire {
namespace {

template <typename T>
std::span<const T> first(const std::vector<T>& values, std::int64_t count) {
  return std::span(values).first(static_cast<std::size_t>(count));
}

}  // namespace

std::uint64_t DistantExperts::bytes(const Sizes& sizes) {
  return Arena::float_bytes(sizes.max_rows * sizes.hidden_size);
}

std::uint64_t DistantExperts::downloaded_bytes(const Sizes& sizes) {
  const std::int64_t choices = sizes.max_rows * sizes.experts_per_row;
  return Arena::float_bytes(sizes.max_rows * sizes.hidden_size) +
         Arena::array_bytes<std::int32_t>(choices) + Arena::float_bytes(choices);
}

std::uint64_t DistantExperts::host_bytes(const Sizes& sizes) {
  return downloaded_bytes(sizes) + Arena::float_bytes(sizes.max_rows * sizes.hidden_size);
}

DistantExperts::DistantExperts(OpStream& there, float* out, const Sizes& sizes)
    : there_(there),
      out_(out),
      hidden_size_(sizes.hidden_size),
      x_(static_cast<std::size_t>(sizes.max_rows * sizes.hidden_size)),
      chosen_(static_cast<std::size_t>(sizes.max_rows * sizes.experts_per_row)),
      weights_(chosen_.size()),
      results_(x_.size()) {}

void DistantExperts::compute(OpStream& here, const float* x, std::int64_t rows,
                             const ExpertProducts& products, float* out) {
  if (!status_.ok()) return;
  const std::int64_t count = rows * hidden_size_;
  const std::int64_t choices = rows * products.experts_per_row;
  here.download(x, count, x_.data());
  here.download(products.chosen, choices, chosen_.data());
  here.download(products.weights, choices, weights_.data());
  // Then the results of the last call have been read, too.
  status_ = here.synchronize();
  if (!status_.ok()) return;
  ExpertProducts own = products;
  own.chosen = there_.stage(first(chosen_, choices));
  own.weights = there_.stage(first(weights_, choices));
  there_.expert_mlp(there_.stage(first(x_, count)), rows, own, out_);
  there_.download(out_, count, results_.data());
  status_ = there_.synchronize();
  here.upload(first(results_, count), out);
}

Status DistantExperts::take_status() { return std::exchange(status_, Status()); }

}  // namespace quire
