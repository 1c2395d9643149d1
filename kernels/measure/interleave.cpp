#include "kernels/measure/interleave.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "kernels/measure/burst.h"
#include "kernels/measure/check.h"

namespace ptxbuilder::bench {

size_t set_count(const Problem& problem, bool warm, size_t l2_bytes) {
  if (warm) return 1;
  const auto each = static_cast<size_t>(bytes(problem));
  return std::clamp<size_t>((3 * l2_bytes + each - 1) / each, 2, 256);
}

struct Method::Data {
  std::vector<runtime::Buffer> buffers;
  std::vector<BufferSet> sets;
  std::vector<RandomContents> first;  // the inputs of set 0
};

struct Method::Lane {
  Contender* contender;
  size_t entry;
  double estimate = 0;  // in microseconds
  bool times_itself = false;
  size_t launches = 0;                     // launches per burst
  std::unique_ptr<Burst> burst = nullptr;  // null if the contender times itself

  double run(const std::function<void()>& meanwhile) const {
    return burst ? burst->run(meanwhile) : contender->own_burst(launches, meanwhile).value();
  }
};

const RandomBlock& Method::block(DType type) {
  std::unique_ptr<RandomBlock>& known = blocks_[type];
  if (!known) known = std::make_unique<RandomBlock>(gpu_, type, options_.seed + static_cast<uint64_t>(type));
  return *known;
}

Method::Data Method::make_data(const Problem& problem, size_t sets) {
  std::mt19937_64 random(options_.seed);
  Data data;
  auto allocate = [&](int64_t bytes) {
    return runtime::View(data.buffers.emplace_back(gpu_.device(), static_cast<size_t>(bytes)));
  };
  for (size_t i = 0; i < sets; ++i) {
    BufferSet& set = data.sets.emplace_back();
    for (const Matrix& input : inputs(problem)) {
      set.inputs.push_back(allocate(input.bytes()));
      RandomContents contents(static_cast<size_t>(input.elements()), random);
      contents.write(gpu_, block(input.type), set.inputs.back().address);
      if (i == 0) data.first.push_back(std::move(contents));
    }
    set.output = allocate(output(problem).bytes());
  }
  gpu_.device().synchronize();
  return data;
}

// Prepares the contenders. A contender that cannot be prepared is left out, and its entry records the reason.
// A kernel that hangs ends the run.
std::vector<Method::Lane> Method::prepare(const Problem& problem, const Data& data,
                                          std::span<const std::unique_ptr<Contender>> contenders,
                                          std::vector<Entry>& entries) {
  std::vector<Lane> lanes;
  for (const auto& contender : contenders) {
    Entry& entry = entries.emplace_back();
    entry.contender = contender->name();
    entry.left_out = contender->refuses(problem);
    if (!entry.left_out.empty()) continue;
    try {
      contender->prepare(problem, data.sets);
      entry.configuration = contender->configuration();
      lanes.push_back({.contender = contender.get(), .entry = entries.size() - 1});
    } catch (const runtime::TimeoutError&) {
      throw;
    } catch (const Error& e) {
      entry.left_out = e.what();
    }
  }
  return lanes;
}

void Method::check(const Problem& problem, const Data& data, std::vector<Lane>& lanes,
                   std::vector<Entry>& entries, const std::string& reference, ShapeResult& result) {
  const std::vector<Matrix> read = inputs(problem);
  std::vector<Elements> values;
  for (size_t i = 0; i < read.size(); ++i)
    values.push_back([&contents = data.first[i], &from = block(read[i].type)](int64_t at) {
      return contents.value(from, static_cast<size_t>(at));
    });
  const std::vector<Expected> expected =
      expected_elements(problem, values, options_.seed, options_.checked_elements);
  const Matrix written = output(problem);
  const runtime::View memory = data.sets[0].output;
  const bool compares_rows = options_.compares_rows && !reference.empty();
  std::vector<Rows> rows;
  const Rows* truth = nullptr;
  rows.reserve(lanes.size());
  for (Lane& lane : lanes) {
    gpu_.device().fill(memory.address, 0xff, memory.bytes);  // a NaN in every floating-point type
    Entry& entry = entries[lane.entry];
    try {
      lane.contender->launch(0);
    } catch (const ContenderError& e) {
      entry.left_out = e.what();
      rows.emplace_back();
      continue;
    }
    gpu_.device().synchronize();
    entry.wrong = compare(gpu_, written, memory, expected);
    rows.push_back(compares_rows ? download(gpu_, written, memory) : Rows());
    if (compares_rows && entry.contender == reference && entry.wrong.empty()) truth = &rows.back();
  }
  if (!truth) return;
  result.reference_rows = truth->rows.size();
  for (size_t i = 0; i < lanes.size(); ++i) {
    Entry& entry = entries[lanes[i].entry];
    if (&rows[i] != truth && entry.wrong.empty() && entry.left_out.empty())
      entry.wrong = compare(written, rows[i], *truth, expected);
  }
}

// Records the bursts. All contenders have the same number of launches per burst, so that the burst of the
// fastest contender has the minimum duration, and their launches are recorded in the same way. A contender
// that times itself runs once in advance, so that its preparations for bursts of this length do not slow down
// the first round.
void Method::make_bursts(std::vector<Lane>& lanes, size_t sets, ShapeResult& result) {
  double fastest = INFINITY;
  auto each = [&](auto&& step) {
    std::erase_if(lanes, [&](Lane& lane) {
      try {
        step(lane, [contender = lane.contender](size_t set) { contender->launch(set); });
        return false;
      } catch (const runtime::TimeoutError&) {
        throw;
      } catch (const Error& e) {
        result.entries[lane.entry].left_out = e.what();
        return true;
      }
    });
  };
  each([&](Lane& lane, auto launch) {
    const std::optional<double> own = lane.contender->own_burst(sets, [] {});
    lane.estimate = own ? *own : estimate(gpu_, sets, launch);
    lane.times_itself = own.has_value();
    fastest = std::min(fastest, lane.estimate);
  });
  const double wanted = 1000 * options_.burst_milliseconds / std::max(fastest, 0.1);
  const auto launches = static_cast<size_t>(std::max<double>(wanted, options_.least_launches));
  each([&](Lane& lane, auto launch) {
    if (lane.times_itself) {
      lane.launches = launches;
      lane.run([] {});
    } else {
      lane.burst = std::make_unique<Burst>(gpu_, sets, launches, fastest, launch);
      lane.launches = lane.burst->launches();
    }
    result.launches = std::max(result.launches, lane.launches);
  });
}

void Method::warm_up(const std::vector<Lane>& lanes, Clock::time_point deadline) {
  const auto time = std::chrono::duration<double>(options_.warm_up_seconds);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  while (!lanes.empty() && Clock::now() < std::min(end, deadline))
    for (const Lane& lane : lanes) {
      try {
        lane.run([] {});
      } catch (const ContenderError&) {  // the failure will recur in the rounds, which report it
      }
    }
}

Sample Method::burst(const Lane& lane, Regime regime, bool warm) {
  if (regime == Regime::cool) {
    if (!warm && gpu_.l2_bytes() > 0) {
      if (flushed_.bytes() == 0) flushed_ = runtime::Buffer(gpu_.device(), 2 * gpu_.l2_bytes());
      flushed_.fill();
      gpu_.device().synchronize();
    }
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options_.rest_milliseconds));
  }
  Sample sample;
  // Reads NVML halfway through the burst, when clock and power have the values of the burst.
  sample.microseconds = lane.run([&] {
    if (!nvml_) return;
    const double half = lane.estimate * static_cast<double>(lane.launches) / 2;
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(half));
    sample.telemetry = nvml_->sample();
  });
  return sample;
}

void Method::run_rounds(const std::vector<Lane>& lanes, ShapeResult& result, Clock::time_point deadline) {
  auto measure = [&](size_t i) -> Sample {
    std::string& left_out = result.entries[lanes[i].entry].left_out;
    try {
      if (left_out.empty()) return burst(lanes[i], result.regime, result.warm);
    } catch (const ContenderError& e) {
      left_out = e.what();
    }
    return {};
  };
  auto samples =
      interleave(lanes.size(), options_.rounds, options_.seed + static_cast<uint64_t>(result.regime), measure,
                 [&] { return Clock::now() >= deadline; });
  for (size_t i = 0; i < lanes.size(); ++i) {
    Entry& entry = result.entries[lanes[i].entry];
    if (entry.left_out.empty()) entry.samples = std::move(samples[i]);
  }
}

// Measures energy. The counter changes every few tens of milliseconds, so the power is computed from the
// difference between two readings. The first reading is taken after a third of the time, when the clock has
// settled.
void Method::measure_energy(const std::vector<Lane>& lanes, ShapeResult& result) {
  if (!nvml_) throw Error("the energy of a product is measured with NVML, which is not available");
  for (const Lane& lane : lanes) {
    Entry& entry = result.entries[lane.entry];
    if (!lane.burst || !entry.left_out.empty()) continue;
    const double seconds = options_.energy_seconds;
    EnergyMeter meter([this] { return nvml_->joules(); }, seconds / 3);
    const double watched = 0.9e-6 * lane.estimate * static_cast<double>(lane.launches);
    double microseconds = 0;
    int bursts = 0;
    while (meter.seconds() < seconds) {
      const bool counts = meter.seconds() > seconds / 3;
      const double each = lane.run([&] { meter.watch(watched); });
      if (!counts) continue;
      microseconds += each;
      ++bursts;
    }
    if (bursts > 0) entry.joules = meter.watts() * microseconds / bursts * 1e-6;
  }
}

std::vector<ShapeResult> Method::measure(const Case& what, std::span<const Regime> regimes,
                                         std::span<const std::unique_ptr<Contender>> contenders,
                                         const std::string& reference, Clock::time_point deadline) {
  ShapeResult common;
  static_cast<Case&>(common) = what;
  const Problem& problem = what.problem;
  common.sets = set_count(problem, what.warm, gpu_.l2_bytes());
  const Data data = make_data(problem, common.sets);
  std::vector<Lane> lanes = prepare(problem, data, contenders, common.entries);
  check(problem, data, lanes, common.entries, reference, common);
  std::erase_if(lanes, [&](const Lane& lane) {
    const Entry& entry = common.entries[lane.entry];
    return !entry.wrong.empty() || !entry.left_out.empty();
  });
  make_bursts(lanes, common.sets, common);
  std::vector<ShapeResult> results;
  for (Regime regime : regimes) {
    ShapeResult& result = results.emplace_back(common);
    result.regime = regime;
    if (regime == Regime::sustained) warm_up(lanes, deadline);
    run_rounds(lanes, result, deadline);
    if (regime == Regime::sustained && options_.energy_seconds > 0) measure_energy(lanes, result);
  }
  return results;
}

}  // namespace ptxbuilder::bench
