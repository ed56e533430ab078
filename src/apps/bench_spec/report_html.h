// A measurement of speculation as one HTML page with charts.
#pragma once

#include <string>

#include "apps/bench_spec/report.h"
#include "apps/charts/report_page.h"

namespace quire {

std::string to_html(const SpecReport& report, const Provenance& provenance);

}  // namespace quire
