// Pieces of work that repeat, as CUDA graphs (CUDA C++ Programming Guide, "CUDA Graphs"): what a
// piece launches is recorded when its key comes for the second time, and launched as a whole from
// then on. Kernels still start early (pdl_launch.cuh), as recording keeps such edges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"

struct CUstream_st;     // cudaStream_t is a pointer to it
struct CUgraph_st;      // cudaGraph_t
struct CUgraphExec_st;  // cudaGraphExec_t

namespace quire::cuda {

enum class GraphMode : std::uint8_t {
  kOn,
  kOff,
  // Records a piece that is there once more, and compares before it is launched.
  kCheck,
};
// QUIRE_CUDA_GRAPHS: "on", which it is where the variable is not set, "off" or "check". kConfig.
Result<GraphMode> graph_mode();

class PieceGraphs {
 public:
  PieceGraphs(CUstream_st* stream, GraphMode mode) : stream_(stream), mode_(mode) {}
  // The stream is idle.
  ~PieceGraphs();
  PieceGraphs(const PieceGraphs&) = delete;
  PieceGraphs& operator=(const PieceGraphs&) = delete;

  // Of the GPU's memory, at most.
  static std::uint64_t bytes();

  // Enqueues what `ops` does. kInternal: what was recorded under this key is something else
  // (kCheck).
  Status run(const std::vector<std::uint64_t>& key, const std::function<void()>& ops);

  // The same by a graph that is made for this time alone. False: there is none, and nothing is
  // enqueued.
  bool run_once(const std::function<void()>& ops);

  bool recording() const { return recording_; }
  // Before each op: what is recorded can be compared then (kCheck).
  void prepare_op() const;
  // What is being recorded depends on more than its key: it is thrown away, and never recorded
  // again.
  void refuse() { refused_ = true; }

 private:
  struct Piece {
    std::vector<std::uint64_t> key;
    std::uint64_t hash = 0;
    std::uint64_t last_use = 0;
    bool refused = false;
    CUgraph_st* graph = nullptr;  // kCheck
    CUgraphExec_st* launchable = nullptr;
    std::size_t nodes = 0;
  };

  Piece* find(const std::vector<std::uint64_t>& key, std::uint64_t hash);
  void remember(const std::vector<std::uint64_t>& key, std::uint64_t hash);
  // Null where that cannot be recorded.
  CUgraph_st* record(const std::function<void()>& ops);
  // False: there is none of such a piece.
  bool make_graph(Piece& piece, const std::function<void()>& ops);
  void make_room(std::size_t nodes);
  static void release(Piece& piece);

  CUstream_st* stream_;
  GraphMode mode_;
  CUgraphExec_st* once_ = nullptr;  // the last one of run_once()
  std::vector<Piece> pieces_;       // that came lately
  std::uint64_t uses_ = 0;
  std::size_t nodes_ = 0;  // of all graphs
  bool recording_ = false;
  bool refused_ = false;
};

}  // namespace quire::cuda
