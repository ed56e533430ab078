// What two recordings of one piece of work differ by (piece_graphs.h).
#pragma once

#include <string>

struct CUgraph_st;  // cudaGraph_t is a pointer to it

namespace quire::cuda {

// The first kernel, copy or number that is another in `actual`; empty: there is none.
std::string graph_difference(CUgraph_st* expected, CUgraph_st* actual);

}  // namespace quire::cuda
