#include "kernels/cuda/piece_graphs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/errors.h"
#include "kernels/cuda/graph_difference.h"

namespace quire::cuda {
namespace {

// Keys that are remembered. Batches shrink and grow: their sizes come back.
constexpr std::size_t kMostPieces = 512;
// Kernels and copies of all graphs together; a step of a model of 32 layers has about 300.
constexpr std::size_t kMostNodes = 16384;
// Of the GPU's memory that a node takes: 2.7 KiB measured with arguments of 64 bytes, less than
// twice that with those of kernels here.
constexpr std::uint64_t kNodeBytes = 4096;

// Arguments of kernels are structs, and where they have padding, recordings have what the stack had
// there before: this, from here on.
[[gnu::noinline]] void clear_stack() {
  std::array<std::byte, std::size_t{1} << 16> below;
  below.fill(std::byte{0});
  asm volatile("" : : "r"(below.data()) : "memory");  // as if somebody read it
}

// FNV-1a (Fowler, Noll and Vo) over words.
std::uint64_t hash_of(const std::vector<std::uint64_t>& key) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::uint64_t word : key) hash = (hash ^ word) * 0x100000001B3;
  return hash;
}

}  // namespace

Result<GraphMode> graph_mode() {
  const char* const value = std::getenv("QUIRE_CUDA_GRAPHS");
  const std::string_view name = value == nullptr ? "on" : value;
  if (name == "on") return GraphMode::kOn;
  if (name == "off") return GraphMode::kOff;
  if (name == "check") return GraphMode::kCheck;
  return Status::config(fmt::format("QUIRE_CUDA_GRAPHS={}: no such way of using graphs", name),
                        "on, off or check");
}

std::uint64_t PieceGraphs::bytes() { return kMostNodes * kNodeBytes; }

PieceGraphs::~PieceGraphs() {
  for (Piece& piece : pieces_) release(piece);
  if (once_ != nullptr) (void)cudaGraphExecDestroy(once_);
}

void PieceGraphs::release(Piece& piece) {
  if (piece.launchable != nullptr) (void)cudaGraphExecDestroy(piece.launchable);
  if (piece.graph != nullptr) (void)cudaGraphDestroy(piece.graph);
  piece.launchable = nullptr;
  piece.graph = nullptr;
  piece.nodes = 0;
}

PieceGraphs::Piece* PieceGraphs::find(const std::vector<std::uint64_t>& key, std::uint64_t hash) {
  const auto piece = std::ranges::find_if(
      pieces_, [&](const Piece& each) { return each.hash == hash && each.key == key; });
  return piece == pieces_.end() ? nullptr : &*piece;
}

// In the place of the one that has not come for the longest time, where there are many.
void PieceGraphs::remember(const std::vector<std::uint64_t>& key, std::uint64_t hash) {
  if (pieces_.size() < kMostPieces) {
    pieces_.push_back({.key = key, .hash = hash, .last_use = uses_});
    return;
  }
  Piece& oldest = *std::ranges::min_element(pieces_, {}, &Piece::last_use);
  nodes_ -= oldest.nodes;
  release(oldest);
  oldest = {.key = key, .hash = hash, .last_use = uses_};
}

void PieceGraphs::make_room(std::size_t nodes) {
  while (nodes_ + nodes > kMostNodes) {
    Piece* oldest = nullptr;
    for (Piece& piece : pieces_) {
      if (piece.nodes == 0) continue;
      if (oldest == nullptr || piece.last_use < oldest->last_use) oldest = &piece;
    }
    nodes_ -= oldest->nodes;
    release(*oldest);
  }
}

void PieceGraphs::prepare_op() const {
  if (recording_ && mode_ == GraphMode::kCheck) clear_stack();
}

CUgraph_st* PieceGraphs::record(const std::function<void()>& ops) {
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  // The recording ends even where an op throws.
  struct Ending {
    PieceGraphs& graphs;
    CUgraph_st* graph = nullptr;
    void end() {
      if (!std::exchange(graphs.recording_, false)) return;
      const bool failed = cudaStreamEndCapture(graphs.stream_, &graph) != cudaSuccess;
      if ((failed || graphs.refused_) && graph != nullptr) {
        (void)cudaGraphDestroy(std::exchange(graph, nullptr));
      }
      if (failed) (void)cudaGetLastError();
    }
    ~Ending() { end(); }
  };
  recording_ = true;
  refused_ = false;
  Ending ending{*this};
  prepare_op();
  ops();
  ending.end();
  return ending.graph;
}

bool PieceGraphs::make_graph(Piece& piece, const std::function<void()>& ops) {
  CUgraph_st* const graph = record(ops);
  std::size_t nodes = 0;
  if (graph != nullptr && cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess && nodes > 0 &&
      nodes <= kMostNodes) {
    make_room(nodes);
    if (cudaGraphInstantiate(&piece.launchable, graph, 0) == cudaSuccess) {
      piece.nodes = nodes;
      nodes_ += nodes;
      if (mode_ == GraphMode::kCheck) {
        piece.graph = graph;
      } else {
        (void)cudaGraphDestroy(graph);
      }
      return true;
    }
    (void)cudaGetLastError();
    piece.launchable = nullptr;
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  piece.refused = true;
  return false;
}

bool PieceGraphs::run_once(const std::function<void()>& ops) {
  if (mode_ == GraphMode::kOff) return false;
  if (once_ != nullptr) (void)cudaGraphExecDestroy(std::exchange(once_, nullptr));
  CUgraph_st* const graph = record(ops);
  if (graph == nullptr) return false;
  const bool made = cudaGraphInstantiate(&once_, graph, 0) == cudaSuccess;
  (void)cudaGraphDestroy(graph);
  if (made && cudaGraphLaunch(once_, stream_) == cudaSuccess) return true;
  if (!made) once_ = nullptr;
  (void)cudaGetLastError();
  return false;
}

Status PieceGraphs::run(const std::vector<std::uint64_t>& key, const std::function<void()>& ops) {
  if (mode_ == GraphMode::kOff) {
    ops();
    return {};
  }
  ++uses_;
  const std::uint64_t hash = hash_of(key);
  Piece* const piece = find(key, hash);
  if (piece == nullptr) {
    ops();
    remember(key, hash);
    return {};
  }
  piece->last_use = uses_;
  if (piece->refused) {
    ops();
    return {};
  }
  if (piece->launchable == nullptr) {
    if (!make_graph(*piece, ops)) {
      ops();
      return {};
    }
  } else if (mode_ == GraphMode::kCheck) {
    CUgraph_st* const again = record(ops);
    if (again == nullptr) return Status::internal("a piece that repeats cannot be recorded again");
    const std::string difference = graph_difference(piece->graph, again);
    (void)cudaGraphDestroy(again);
    if (!difference.empty()) {
      return Status::internal(fmt::format("a piece that repeats is not the same: {}", difference));
    }
  }
  return to_status(cudaGraphLaunch(piece->launchable, stream_), "launch a graph");
}

}  // namespace quire::cuda
