// The files of the tier below the KV cache: which they are, for which engine.
#pragma once

#include <memory>

#include "base/status.h"
#include "engine/api.h"
#include "engine/engine_sizing.h"
#include "kernels/op_table.h"
#include "load/model_bundle.h"
#include "tier/block_file.h"

namespace quire {

// The files below EngineArgs::kv_offload_path, in a folder of their own for all that decides the
// bits of a block: the checkpoint's files and configuration, quantization and types, the level, the
// size of blocks, and this program's version. Errors of BlockFile::open, naming the flag.
Result<std::unique_ptr<BlockFile>> open_offload_files(const EngineArgs& args,
                                                      const ModelBundle& bundle,
                                                      const EngineSizes& sizes, IsaLevel level);

}  // namespace quire
