#include "models/token_map.h"

#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

Result<std::vector<TokenId>> read_token_map(const TensorInfo& tensor, bool offsets,
                                            std::int64_t model_vocab_size) {
  if (tensor.encoding != Encoding::kI64 || tensor.shape.size() != 1) {
    return Status::bad_model(fmt::format("{}: tensor {}: expected a list of 64-bit integers",
                                         tensor.file, printable(tensor.name)));
  }
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
    std::int64_t token = 0;
    std::memcpy(&token, tensor.data.data() + static_cast<std::size_t>(i) * sizeof(token),
                sizeof(token));
    if (offsets && token >= -i && token < model_vocab_size) token += i;
    if (token < 0 || token >= model_vocab_size) {
      return Status::bad_model(
          fmt::format("{}: tensor {}: number {} is {}, which is no token of the model's {}",
                      tensor.file, printable(tensor.name), i, token, model_vocab_size),
          "use a checkpoint that was trained for the model");
    }
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

}  // namespace quire
