#include "serve/protocols/embedding_vector.h"

#include <cmath>

namespace quire {

std::vector<float> shaped_embedding(std::span<const float> kept, bool normalize) {
  std::vector<float> vector(kept.begin(), kept.end());
  if (!normalize) return vector;
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * static_cast<double>(value);
  if (sum == 0) return vector;
  const double length = std::sqrt(sum);
  for (float& value : vector) value = static_cast<float>(static_cast<double>(value) / length);
  return vector;
}

}  // namespace quire
