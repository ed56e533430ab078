// The vector that whoever asks for an embedding gets, made of the hidden state that an engine
// gives.
#pragma once

#include <span>
#include <vector>

namespace quire {

// `kept`, the first values of the state, as many as are wanted; scaled to length 1 with
// `normalize`. A vector of nothing but zeros, which has no direction, stays as it is.
std::vector<float> shaped_embedding(std::span<const float> kept, bool normalize);

}  // namespace quire
