#include "kernels/cuda/graph_difference.h"

#include <cstddef>
#include <cstring>
#include <cuda_runtime_api.h>
#include <vector>

#include <fmt/format.h>

namespace quire::cuda {
namespace {

// In the order in which they were recorded.
std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  (void)cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  (void)cudaGraphGetNodes(graph, nodes.data(), &count);
  return nodes;
}

bool same(dim3 a, dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

std::string kernel_name(const void* kernel) {
  const char* name = nullptr;
  return cudaFuncGetName(&name, kernel) == cudaSuccess ? name : "a kernel";
}

std::string kernel_difference(cudaGraphNode_t expected, cudaGraphNode_t actual) {
  cudaKernelNodeParams a = {};
  cudaKernelNodeParams b = {};
  if (cudaGraphKernelNodeGetParams(expected, &a) != cudaSuccess ||
      cudaGraphKernelNodeGetParams(actual, &b) != cudaSuccess) {
    return "a kernel whose arguments cannot be read";
  }
  if (a.func != b.func) {
    return fmt::format("{} in place of {}", kernel_name(b.func), kernel_name(a.func));
  }
  if (!same(a.gridDim, b.gridDim) || !same(a.blockDim, b.blockDim) ||
      a.sharedMemBytes != b.sharedMemBytes) {
    return fmt::format("the shape of {}: {} by {} by {} blocks in place of {} by {} by {}",
                       kernel_name(a.func), b.gridDim.x, b.gridDim.y, b.gridDim.z, a.gridDim.x,
                       a.gridDim.y, a.gridDim.z);
  }
  std::size_t offset = 0;
  std::size_t size = 0;
  for (std::size_t i = 0; cudaFuncGetParamInfo(a.func, i, &offset, &size) == cudaSuccess; ++i) {
    const auto* const of_a = static_cast<const unsigned char*>(a.kernelParams[i]);
    const auto* const of_b = static_cast<const unsigned char*>(b.kernelParams[i]);
    for (std::size_t byte = 0; byte < size; ++byte) {
      if (of_a[byte] != of_b[byte]) {
        return fmt::format("byte {} of argument {} of {}", byte, i, kernel_name(a.func));
      }
    }
  }
  (void)cudaGetLastError();  // that there are no more arguments
  return "";
}

std::string copy_difference(cudaGraphNode_t expected, cudaGraphNode_t actual) {
  cudaMemcpy3DParms a = {};
  cudaMemcpy3DParms b = {};
  if (cudaGraphMemcpyNodeGetParams(expected, &a) != cudaSuccess ||
      cudaGraphMemcpyNodeGetParams(actual, &b) != cudaSuccess) {
    return "a copy whose arguments cannot be read";
  }
  const bool alike = a.srcPtr.ptr == b.srcPtr.ptr && a.dstPtr.ptr == b.dstPtr.ptr &&
                     a.extent.width == b.extent.width && a.extent.height == b.extent.height &&
                     a.extent.depth == b.extent.depth && a.kind == b.kind;
  return alike ? "" : "the places or the size of a copy";
}

std::string node_difference(cudaGraphNode_t expected, cudaGraphNode_t actual) {
  cudaGraphNodeType a = {};
  cudaGraphNodeType b = {};
  if (cudaGraphNodeGetType(expected, &a) != cudaSuccess ||
      cudaGraphNodeGetType(actual, &b) != cudaSuccess || a != b) {
    return "its kind";
  }
  if (a == cudaGraphNodeTypeKernel) return kernel_difference(expected, actual);
  if (a == cudaGraphNodeTypeMemcpy) return copy_difference(expected, actual);
  return "it is neither a kernel nor a copy";
}

}  // namespace

std::string graph_difference(cudaGraph_t expected, cudaGraph_t actual) {
  const std::vector<cudaGraphNode_t> a = nodes_of(expected);
  const std::vector<cudaGraphNode_t> b = nodes_of(actual);
  if (a.size() != b.size()) return fmt::format("{} nodes in place of {}", b.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string difference = node_difference(a[i], b[i]);
    if (!difference.empty()) return fmt::format("node {} of {}: {}", i, a.size(), difference);
  }
  return "";
}

}  // namespace quire::cuda
