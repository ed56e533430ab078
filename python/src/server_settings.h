// The settings of a server as Python gives them, as JSON: the flags of `quire serve` under their
// names, and for a server with an engine of its own that engine's settings among them.
#pragma once

#include <string>
#include <string_view>

#include "apps/serve_flags.h"
#include "base/status.h"

namespace quire::python {

struct ServerSettings {
  ServeFlags flags;             // complete, but for those of the engine
  std::string engine_settings;  // an object of engine_settings.h
};

// Reads an object. Values are checked as those of the command line are, the engine's, too.
// `with_engine`: whether there may be settings of an engine. kInvalidArgument for a value that
// cannot be, and for a name that nobody knows, with the nearest that there is.
Result<ServerSettings> read_server_settings(std::string_view text, bool with_engine);

}  // namespace quire::python
