// When requests arrive: a process that is drawn before the run and depends on nothing but its
// numbers, so that a server that is slow cannot slow down what is asked of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::bench {

struct ArrivalProcess {
  double rate = 0;        // requests a second; infinite: all at once
  double burstiness = 1;  // shape of the gamma distribution of the gaps, above 0
};

// The arrival of each of `count` requests in seconds from the start, ascending. The gaps are
// gamma-distributed with mean 1 / rate: a burstiness of 1 is a Poisson process, less makes bursts
// (the gaps' variance is mean^2 / burstiness), more comes close to a steady beat. The first request
// comes after a gap of its own. The same seed gives the same arrivals.
std::vector<double> draw_arrivals(const ArrivalProcess& process, std::size_t count,
                                  std::uint64_t seed);

}  // namespace quire::bench
