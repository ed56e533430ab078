#include "apps/plan/plan_report.h"

#include <utility>

#include <fmt/format.h>

#include "apps/plan/plan_values.h"

namespace quire {
namespace {

json::value price_json(const std::optional<double>& usd) {
  return usd ? json::value(*usd) : json::value(nullptr);
}

std::string usd_text(const std::optional<double>& usd, int digits) {
  return usd ? fmt::format("{:.{}f}", *usd, digits) : std::string("-");
}

json::object step_json(const StepTime& step) {
  return {{"flops", step.flops},
          {"bytes", step.bytes},
          {"intensity", step.intensity()},
          {"bound", bound_name(step.bound)},
          {"ideal_ms", step.ideal_s * 1e3},
          {"expected_ms", step.expected_s * 1e3}};
}

double mean_decode_context(const PlanSettings& settings) {
  return static_cast<double>(settings.input_len) + static_cast<double>(settings.output_len) / 2;
}

StepTime decode_step(const DevicePlan& plan, const PlanSettings& settings, std::int64_t batch) {
  return plan.cost.decode(static_cast<double>(batch), mean_decode_context(settings));
}

StepTime prefill_step(const DevicePlan& plan, const PlanSettings& settings) {
  return plan.cost.prefill(static_cast<double>(settings.input_len));
}

double rate_of(const DevicePlan& plan, const PlanSettings& settings, std::int64_t batch) {
  return output_rate(plan.cost, static_cast<double>(batch), static_cast<double>(settings.input_len),
                     static_cast<double>(settings.output_len));
}

// Which layers lie where, before the memory of the stage that has the least to spare.
std::string stages_text(const DevicePlan& plan) {
  std::string text = fmt::format("{} stages of {} device{}:", plan.layout.pp, plan.layout.tp,
                                 plan.layout.tp == 1 ? "" : "s");
  for (const ModelFootprint& stage : plan.stages) text += fmt::format(" {}", stage.num_layers);
  return text +
         fmt::format(" layers\nmemory of each device of stage {}, the fullest\n", plan.fullest + 1);
}

std::string memory_text(const DevicePlan& plan, const PlanSettings& settings) {
  const DeviceFit& fit = plan.fit;
  const DeviceLayout layout = plan.layout;
  std::string text = layout.devices() == 1 ? std::string("memory\n")
                     : layout.pp == 1 ? fmt::format("memory of each of {} devices\n", layout.tp)
                                      : stages_text(plan);
  const auto line = [&](std::string_view name, double bytes, const std::string& detail) {
    text += fmt::format("  {:<14}{:>12}{}{}\n", name, binary_bytes(bytes),
                        detail.empty() ? "" : "  ", detail);
  };
  line("may take", fit.budget,
       fmt::format("{:.0f}% of {}", settings.capacity.utilization * 100,
                   binary_bytes(plan.device.memory_bytes)));
  line("weights", fit.weights, "");
  line("activations", fit.activations,
       fmt::format("an estimate, for {} tokens and {} sequences a step",
                   settings.capacity.batched_tokens, settings.capacity.max_num_seqs));
  line("KV cache", fit.kv_cache,
       fmt::format("{} sequences of the longest length, {} each", fit.sequences,
                   binary_bytes(fit.kv_sequence)));
  return text;
}

std::string roofline_row(std::string_view name, const StepTime& step) {
  return fmt::format("  {:<22}{:>14.4g}{:>13.4g}{:>12.1f}  {:<8}{:>11}{:>11}\n", name, step.flops,
                     step.bytes, step.intensity(), bound_name(step.bound), time_text(step.ideal_s),
                     time_text(step.expected_s));
}

json::array kv_json(const ModelFootprint& footprint) {
  json::array groups;
  for (const KvFootprint& group : footprint.kv) {
    groups.push_back({{"window", group.window},
                      {"num_layers", group.num_layers},
                      {"state_bytes", group.state_bytes},
                      {"bytes_per_token", group.bytes_per_token}});
  }
  return groups;
}

// All numbers of a device's part of the model that its memory and its times follow from.
json::object footprint_json(const ModelFootprint& footprint) {
  json::array attention;
  for (const KeyWork& each : footprint.attention) {
    attention.push_back({{"window", each.window}, {"flops_per_key", each.flops_per_key}});
  }
  return {{"weight_bytes", footprint.weight_bytes},
          {"dense_bytes", footprint.dense_bytes},
          {"expert_bytes", footprint.expert_bytes},
          {"expert_share", footprint.expert_share},
          {"output_bytes", footprint.output_bytes},
          {"flops_per_row", footprint.flops_per_row},
          {"flops_per_logits", footprint.flops_per_logits},
          {"kv_groups", kv_json(footprint)},
          {"attention", std::move(attention)},
          {"num_layers", footprint.num_layers},
          {"hidden_size", footprint.hidden_size},
          {"vocab_size", footprint.vocab_size},
          {"widest_row", footprint.widest_row}};
}

}  // namespace

json::object model_json(const PlannedModel& model, const ModelFootprint& whole,
                        const PlanSettings& settings) {
  return {{"model", model.name},
          {"architecture", model.spec.architecture},
          {"parameters", whole.parameters},
          {"active_parameters", whole.active_parameters},
          {"dtype", model.format.name},
          {"dtype_source", model.format_source},
          {"multiplied_in", arithmetic_name(model.format.arithmetic)},
          {"bits_per_weight", 8 * model.format.bytes_per_weight()},
          {"weight_bytes", static_cast<std::int64_t>(whole.all_weight_bytes + 0.5)},
          {"kv_cache_dtype", settings.kv_dtype},
          {"kv_bytes_per_token", whole.kv_bytes_per_token()},
          {"kv_groups", kv_json(whole)},
          {"max_model_len", model.max_len},
          {"kv_bytes_per_sequence", whole.kv_bytes(model.max_len, settings.capacity.block_size)},
          {"input_len", settings.input_len},
          {"output_len", settings.output_len}};
}

json::array stages_json(const std::vector<ModelFootprint>& stages) {
  json::array list;
  for (const ModelFootprint& stage : stages) {
    json::object footprint = footprint_json(stage);
    if (!list.empty() && list.back().at("footprint").as_object() == footprint) {
      list.back().as_object()["count"] = list.back().at("count").to_number<int>() + 1;
    } else {
      list.push_back({{"count", 1}, {"footprint", std::move(footprint)}});
    }
  }
  return list;
}

json::object device_plan_json(const DevicePlan& plan, const PlanSettings& settings) {
  const DeviceFit& fit = plan.fit;
  json::array decode;
  for (const std::int64_t batch : plan_batches(plan.most)) {
    json::object each = step_json(decode_step(plan, settings, batch));
    each["batch"] = batch;
    each["tokens_per_s"] = rate_of(plan, settings, batch);
    each["usd_per_million_output_tokens"] =
        price_json(usd_per_million(plan, settings, static_cast<double>(batch)));
    decode.push_back(std::move(each));
  }
  json::object prefill = step_json(prefill_step(plan, settings));
  prefill["tokens"] = settings.input_len;
  return {{"device", to_json(plan.device)},
          {"tp", plan.layout.tp},
          {"pp", plan.layout.pp},
          {"usd_per_hour", price_json(plan.usd_per_hour)},
          {"fits", fit.fits()},
          {"footprint", footprint_json(plan.footprint())},
          {"stages", stages_json(plan.stages)},
          {"memory",
           {{"budget", fit.budget},
            {"weights", fit.weights},
            {"activations", fit.activations},
            {"kv_cache", fit.kv_cache},
            {"kv_bytes_per_sequence", fit.kv_sequence},
            {"sequences", fit.sequences}}},
          {"computed_in", arithmetic_name(plan.cost.stage(0).computed_in())},
          {"ridge", plan.cost.stage(0).ridge()},
          {"prefill", std::move(prefill)},
          {"decode", std::move(decode)}};
}

std::string model_text(const PlannedModel& model, const ModelFootprint& whole,
                       const PlanSettings& settings) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<16}{}\n", name, value);
  };
  line("model", fmt::format("{} ({})", model.name, model.spec.architecture));
  line("parameters",
       whole.active_parameters == whole.parameters
           ? fmt::format("{:.3f} billion", static_cast<double>(whole.parameters) / 1e9)
           : fmt::format("{:.3f} billion, of which a token meets {:.3f}",
                         static_cast<double>(whole.parameters) / 1e9,
                         static_cast<double>(whole.active_parameters) / 1e9));
  line("weights",
       fmt::format("{}, {}, {:.2f} bits each ({}); by {}", binary_bytes(whole.all_weight_bytes),
                   model.format.name, 8 * model.format.bytes_per_weight(), model.format.note,
                   model.format_source));
  line("KV cache",
       fmt::format("{:.0f} bytes a token, {} a sequence of {}", whole.kv_bytes_per_token(),
                   binary_bytes(whole.kv_bytes(model.max_len, settings.capacity.block_size)),
                   model.max_len));
  if (whole.kv.size() > 1 || whole.kv[0].window != 0) {
    for (const KvFootprint& group : whole.kv) {
      if (group.state_bytes != 0) {
        line("", fmt::format("a state of {:.0f} bytes a sequence in {} layers", group.state_bytes,
                             group.num_layers));
        continue;
      }
      line("", fmt::format("{:.0f} bytes in {} layers that keep {}", group.bytes_per_token,
                           group.num_layers,
                           group.window == 0 ? std::string("all tokens")
                                             : fmt::format("the last {} tokens", group.window)));
    }
  }
  return text;
}

std::string device_plan_text(const DevicePlan& plan, const PlanSettings& settings) {
  const Efficiencies& share = plan.device.efficiencies;
  std::string text =
      fmt::format("device          {}{} ({}, {})\n",
                  plan.layout.devices() == 1 ? "" : fmt::format("{} x ", plan.layout.devices()),
                  plan.device.title, plan.device.source, plan.device.date);
  if (settings.usd_per_hour) {
    text +=
        fmt::format("price           {:.2f} USD an hour (--price-per-hour)\n", *plan.usd_per_hour);
  } else if (plan.usd_per_hour) {
    text += fmt::format("price           {:.2f} USD an hour ({}, {})\n", *plan.usd_per_hour,
                        plan.device.price_source, plan.device.price_date);
  } else {
    text += "price           none is known: --price-per-hour USD\n";
  }
  text += "\n" + memory_text(plan, settings);
  if (!plan.fit.fits()) return text;
  text += fmt::format(
      "\nroofline: {:.4g} FLOP/s in {}, {:.4g} bytes/s; a step of less than {:.0f} FLOP a byte is "
      "bound by memory\nexpected: {:.0f}% of FLOP/s, {:.0f}% of bandwidth, {} a step besides\n",
      plan.cost.stage(0).flops_per_second(), arithmetic_name(plan.cost.stage(0).computed_in()),
      plan.device.bandwidth, plan.cost.stage(0).ridge(), share.compute * 100, share.memory * 100,
      time_text(share.step_overhead_s));
  text += fmt::format("  {:<22}{:>14}{:>13}{:>12}  {:<8}{:>11}{:>11}\n", "step", "FLOP", "bytes",
                      "FLOP/byte", "bound by", "ideal", "expected");
  text +=
      roofline_row(fmt::format("prefill of {}", settings.input_len), prefill_step(plan, settings));
  for (const std::int64_t batch : plan_batches(plan.most)) {
    text +=
        roofline_row(fmt::format("decode, batch {}", batch), decode_step(plan, settings, batch));
  }
  text += fmt::format(
      "\nprompts of {} tokens, outputs of {}; an idle device gives the first token "
      "after {} (ideal {})\n",
      settings.input_len, settings.output_len, time_text(prefill_step(plan, settings).expected_s),
      time_text(prefill_step(plan, settings).ideal_s));
  text += fmt::format("  {:>8}{:>14}{:>14}{:>16}{:>26}\n", "batch", "TPOT ideal", "expected",
                      "tokens/s", "USD a million output");
  for (const std::int64_t batch : plan_batches(plan.most)) {
    const StepTime step = decode_step(plan, settings, batch);
    text += fmt::format("  {:>8}{:>14}{:>14}{:>16.1f}{:>26}\n", batch, time_text(step.ideal_s),
                        time_text(step.expected_s), rate_of(plan, settings, batch),
                        usd_text(usd_per_million(plan, settings, static_cast<double>(batch)), 3));
  }
  return text;
}

std::string overview_text(const std::vector<DevicePlan>& plans, const PlanSettings& settings) {
  std::string text = fmt::format("{:<12}{:>4}{:>4}{:>14}{:>11}{:>12}{:>12}{:>7}{:>12}{:>12}\n",
                                 "device", "tp", "pp", "weights each", "sequences", "TTFT",
                                 "TPOT, 1", "batch", "tokens/s", "USD/million");
  for (const DevicePlan& plan : plans) {
    if (!plan.fit.fits()) {
      text += fmt::format("{:<12}{:>4}{:>4}{:>14}  does not fit\n", plan.device.name,
                          plan.layout.tp, plan.layout.pp, binary_bytes(plan.fit.weights));
      continue;
    }
    text += fmt::format(
        "{:<12}{:>4}{:>4}{:>14}{:>11}{:>12}{:>12}{:>7}{:>12.1f}{:>12}\n", plan.device.name,
        plan.layout.tp, plan.layout.pp, binary_bytes(plan.fit.weights), plan.fit.sequences,
        time_text(prefill_step(plan, settings).expected_s),
        time_text(decode_step(plan, settings, 1).expected_s), plan.most,
        rate_of(plan, settings, plan.most),
        usd_text(usd_per_million(plan, settings, static_cast<double>(plan.most)), 3));
  }
  text += fmt::format(
      "\nthe fewest of each that hold the model and one sequence of the longest length; expected "
      "times,\nprompts of {} tokens, outputs of {}, a batch of as many as fit (at most {})\n",
      settings.input_len, settings.output_len, settings.capacity.max_num_seqs);
  return text;
}

std::string device_list_text(const std::vector<PlanDevice>& devices) {
  std::string text =
      fmt::format("{:<12}{:>9}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>8}  {}\n", "device",
                  "memory GB", "GB/s", "fp32", "bf16", "fp8", "int8", "fp4", "link", "USD/h", "");
  for (const PlanDevice& device : devices) {
    const auto flops = [&](Arithmetic arithmetic) {
      for (const auto& [type, value] : device.flops) {
        if (type == arithmetic) return fmt::format("{:g}", value / 1e12);
      }
      return std::string("-");
    };
    text += fmt::format("{:<12}{:>9g}{:>10g}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8g}{:>8}  {}\n",
                        device.name, device.memory_bytes / 1e9, device.bandwidth / 1e9,
                        flops(Arithmetic::kF32), flops(Arithmetic::kBF16), flops(Arithmetic::kF8),
                        flops(Arithmetic::kI8), flops(Arithmetic::kF4), device.link_bandwidth / 1e9,
                        usd_text(device.usd_per_hour, 2), device.title);
    text += fmt::format("{:12}{}, {}{}\n", "", device.source, device.date,
                        device.usd_per_hour
                            ? fmt::format("; price: {}, {}", device.price_source, device.price_date)
                            : std::string());
  }
  return text + "\ndense teraflops of one device; --json prints all of it, as --devices reads it\n";
}

}  // namespace quire
