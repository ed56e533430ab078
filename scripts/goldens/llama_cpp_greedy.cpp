// Greedy tokens of llama.cpp, computed in float32, for scripts/goldens/gguf_forms.py --check:
//
//   llama_cpp_greedy MODEL.gguf COUNT TOKEN...
//
// prints COUNT tokens after the prompt TOKEN..., and after each by how much its logit is above the
// next best. Built by hand against a build of llama.cpp in BUILD from LLAMA_CPP:
//
//   g++ -std=c++17 -I LLAMA_CPP/include -I LLAMA_CPP/ggml/include llama_cpp_greedy.cpp
//       -L BUILD/bin -Wl,-rpath,BUILD/bin -lllama -lggml -lggml-base -o llama_cpp_greedy
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: llama_cpp_greedy MODEL.gguf COUNT TOKEN...\n", stderr);
    return 64;
  }
  ggml_backend_load_all();
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  params.n_batch = 256;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.type_k = GGML_TYPE_F32;
  params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.swa_full = true;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  const int size = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<llama_token> next;
  for (int i = 3; i < argc; ++i) next.push_back(std::atoi(argv[i]));
  for (int count = std::atoi(argv[2]); count > 0; --count) {
    const auto length = static_cast<int32_t>(next.size());
    if (llama_decode(context, llama_batch_get_one(next.data(), length)) != 0) return 1;
    const float* logits = llama_get_logits_ith(context, -1);
    int best = 0;
    for (int i = 1; i < size; ++i) best = logits[i] > logits[best] ? i : best;
    int second = best == 0 ? 1 : 0;
    for (int i = 0; i < size; ++i) second = i != best && logits[i] > logits[second] ? i : second;
    std::printf("%d %g\n", best, static_cast<double>(logits[best] - logits[second]));
    next = {best};
  }
  return 0;
}
