// The files of the tier below the KV cache: which they are, for which engine.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "engine/api.h"
#include "engine/engine_sizing.h"
#include "load/model_bundle.h"
#include "tier/block_file.h"

namespace quire {

// The files below EngineArgs::kv_offload_path, in a folder of their own for all that decides the
// bits of a block: the checkpoint's files and configuration, quantization and types, the level
// (ComputeDevice::level_name), the size of blocks, and this program's version. Errors of
// BlockFile::open, naming the flag.
Result<std::unique_ptr<BlockFile>> open_offload_files(const EngineArgs& args,
                                                      const ModelBundle& bundle,
                                                      const EngineSizes& sizes,
                                                      std::string_view level);

}  // namespace quire
