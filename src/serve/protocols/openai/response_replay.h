// The events of a stored response, for whoever asks for it as a stream.
#pragma once

#include <string>

#include "base/json.h"

namespace quire {

// `response`: a whole Response object with one message of text. Its events are those of a stream
// whose text came at once.
std::string replay_events(const json::object& response);

}  // namespace quire
