// The page at `/`: a playground, a look at the model and into the engine, for whoever opens the
// server in a browser. Its files are embedded in the program and load nothing from elsewhere.
//
// Everything that it shows comes from the same API that other clients use. Three routes are its
// own, for what no protocol has: what the server knows of the model, a text's tokens one by one,
// and what the model would need on other devices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/http/router.h"
#include "serve/service.h"

namespace quire {

// The numbers that the page's calculator computes with, as one JSON object.
using CalculatorNumbers = std::function<Result<std::string>()>;

// GET / and /page/{file}: the page's files, open to all.
// GET /page/info, POST /page/tokens and GET /page/calculator: as above; they need the key where the
// server has one. `numbers` is asked once, on a worker's thread, when somebody wants to calculate.
std::vector<Route> page_routes(Service& service, CalculatorNumbers numbers);

}  // namespace quire
