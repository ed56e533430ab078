// Who looks at every step of a model's engine: whoever creates the engine makes it tell this.
#pragma once

#include "serve/live/step_recorder.h"
#include "serve/metrics/metrics.h"

namespace quire {

struct StepWatch {
  StepMeter meter;
  StepRecorder recorder;

  // On the engine's thread.
  void record(const StepRecord& step) {
    meter.record(step);
    recorder.record(step);
  }
};

}  // namespace quire
