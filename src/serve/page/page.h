// The page at `/`: a playground, a look at the model and into the engine, for whoever opens the
// server in a browser. Its files are embedded in the program and load nothing from elsewhere.
//
// Everything that it shows comes from the same API that other clients use. Two routes are its own,
// for what no protocol has: what the server knows of the model, and a text's tokens one by one.
#pragma once

#include <vector>

#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

// GET / and /page/{file}: the page's files, open to all.
// GET /page/info and POST /page/tokens: as above; they need the key where the server has one.
std::vector<Route> page_routes(Service& service);

}  // namespace quire
