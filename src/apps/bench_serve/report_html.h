// A measurement as one HTML page: figures and charts, no scripts, nothing from elsewhere.
#pragma once

#include <string>

#include "apps/bench_serve/report.h"
#include "apps/charts/report_page.h"

namespace quire::bench {

std::string to_html(const Report& report, const Provenance& provenance);

}  // namespace quire::bench
