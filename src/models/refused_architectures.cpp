#include "models/refused_architectures.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr std::string_view kStateSpace[] = {
    "BambaForCausalLM",
    "FalconH1ForCausalLM",
    "FalconMambaForCausalLM",
    "GraniteMoeHybridForCausalLM",
    "JambaForCausalLM",
    "Mamba2ForCausalLM",
    "MambaForCausalLM",
    "NemotronHForCausalLM",
    "Plamo2ForCausalLM",
    "Zamba2ForCausalLM",
    "ZambaForCausalLM",
    "falcon-h1",
    "granitehybrid",
    "jamba",
    "mamba",
    "mamba2",
    "nemotron_h",
    "plamo2",
};
constexpr std::string_view kLinearAttention[] = {
    "KimiLinearForCausalLM",
    "MiniMaxForCausalLM",
    "MiniMaxText01ForCausalLM",
    "OlmoHybridForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
    "Rwkv6ForCausalLM",
    "Rwkv7ForCausalLM",
    "RwkvForCausalLM",
    "xLSTMForCausalLM",
    "qwen3next",
    "rwkv6",
    "rwkv7",
};
constexpr std::string_view kOtherRecurrence[] = {
    "RecurrentGemmaForCausalLM",
};
constexpr std::string_view kEncoders[] = {
    "AlbertModel",
    "BertForMaskedLM",
    "BertModel",
    "DebertaV2Model",
    "DistilBertModel",
    "ElectraModel",
    "GteModel",
    "JinaBertModel",
    "ModernBertForMaskedLM",
    "ModernBertModel",
    "MPNetModel",
    "NewModel",
    "NomicBertModel",
    "RobertaForMaskedLM",
    "RobertaModel",
    "XLMRobertaModel",
    "bert",
    "jina-bert-v2",
    "nomic-bert",
    "nomic-bert-moe",
    "jina-bert-v3",
    "modern-bert",
    "neo-bert",
    "eurobert",
    "gemma-embedding",
};
constexpr std::string_view kEncoderDecoders[] = {
    "BartForConditionalGeneration",
    "M2M100ForConditionalGeneration",
    "MBartForConditionalGeneration",
    "MT5ForConditionalGeneration",
    "MarianMTModel",
    "PegasusForConditionalGeneration",
    "T5ForConditionalGeneration",
    "T5GemmaForConditionalGeneration",
    "UMT5ForConditionalGeneration",
    "WhisperForConditionalGeneration",
    "t5",
    "t5encoder",
};
constexpr std::string_view kRemoteCode[] = {
    "AquilaForCausalLM",
    "BaiChuanForCausalLM",
    "BaichuanForCausalLM",
    "ChatGLMForConditionalGeneration",
    "ChatGLMModel",
    "DeciLMForCausalLM",
    "InternLM2ForCausalLM",
    "InternLM3ForCausalLM",
    "InternLMForCausalLM",
    "MiniCPM3ForCausalLM",
    "MiniCPMForCausalLM",
    "OrionForCausalLM",
    "QWenLMHeadModel",
    "SolarForCausalLM",
    "TeleChat2ForCausalLM",
    "XverseForCausalLM",
    "baichuan",
    "deci",
    "internlm2",
    "minicpm",
    "minicpm3",
    "orion",
    "qwen",
    "xverse",
};
constexpr std::string_view kTernary[] = {"BitNetForCausalLM", "bitnet"};
constexpr std::string_view kOtherAttention[] = {"DiffLlamaForCausalLM", "DogeForCausalLM"};

constexpr std::array kRefusals = {
    RefusedArchitectures{
        kStateSpace,
        "it has state-space layers (Mamba), whose state is no cache of keys and values"},
    RefusedArchitectures{kLinearAttention,
                         "it has linear attention, whose state is no cache of keys and values"},
    RefusedArchitectures{kOtherRecurrence,
                         "it has recurrent or convolutional layers of a kind that is not there"},
    RefusedArchitectures{kEncoders, "it is an encoder, in which tokens see those that follow them"},
    RefusedArchitectures{
        kEncoderDecoders,
        "it is an encoder with a decoder, and attention from one to the other is missing"},
    RefusedArchitectures{
        kRemoteCode,
        "what it computes is defined by code of its repository alone, which is never run"},
    RefusedArchitectures{kTernary, "products of ternary weights with rounded inputs are missing"},
    RefusedArchitectures{kOtherAttention,
                         "its attention is more than a softmax of scores, and is missing"},
};

}  // namespace

std::span<const RefusedArchitectures> refused_architectures() { return kRefusals; }

std::string_view why_architecture_is_refused(std::string_view name) {
  for (const RefusedArchitectures& refusal : kRefusals) {
    if (std::ranges::find(refusal.names, name) != refusal.names.end()) return refusal.why;
  }
  return {};
}

}  // namespace quire
