// Serves the embedded files: with an entity tag, so that a browser asks once and keeps what has not
// changed, and with a policy that lets the page run its own scripts and talk to its own server
// only.
#pragma once

#include <vector>

#include "serve/http/router.h"

namespace quire {

// GET / and GET /page/{file}, open to all.
std::vector<Route> page_file_routes();

}  // namespace quire
