// Where the parts of a model lie and are computed.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "models/spec.h"

namespace quire {

// Borrows the devices.
struct ModelDevices {
  // NOLINTNEXTLINE(google-explicit-constructor): one device is the plain case.
  ModelDevices(Device& device) : main(&device) {}
  // `host`: of the split's part; may be null where there is none.
  ModelDevices(Device& main_device, Device* host_device, const LayerSplit& layer_split)
      : main(&main_device), host(host_device), split(layer_split) {}

  Device& of_inputs() const { return split.host_layers > 0 ? *host : *main; }
  Device& of_layer(std::int64_t layer) const { return split.on_host(layer) ? *host : *main; }
  Device& of_experts(std::int64_t layer) const {
    return split.experts_on_host(layer) ? *host : *main;
  }

  Device* main;
  Device* host = nullptr;
  LayerSplit split = {};
};

}  // namespace quire
