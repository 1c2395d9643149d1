// Reads the GPU's clock, power and temperature from NVML. NVML is optional, and is searched for at run time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ptxbuilder::bench {

// Values that NVML reports at one point in time; a value that NVML does not provide is 0.
struct Telemetry {
  double sm_mhz = 0, watts = 0, celsius = 0;
  uint64_t limits = 0;  // what limits the clock: NVML's clocks event reasons
};

// Returns the names of limits, such as "power cap, thermal slowdown (software)", or "" if nothing limits the
// clock.
std::string limit_names(uint64_t limits);

class Nvml {
 public:
  // Opens the counters of the GPU with a PCI bus ID such as "0000:1B:00.0". If they are not available, throws
  // an Error that states the reason.
  explicit Nvml(const std::string& pci_bus_id, const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Telemetry sample() const;
  std::string driver_version() const;  // for example "580.65.06"; "" if NVML does not provide it
  double power_limit_watts() const;    // 0 if NVML does not provide it
  double joules() const;               // energy since the driver was loaded; 0 if NVML does not provide it

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  struct DeviceHandle* device_ = nullptr;
};

// Measures power as the slope of an energy counter between the first and the last observed change of the
// counter. The counter changes every few tens of milliseconds.
class EnergyMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // Changes before `settled` seconds are ignored.
  EnergyMeter(std::function<double()> joules, double settled)
      : joules_(std::move(joules)), settled_(settled) {}

  // Watches the counter for this number of seconds.
  void watch(double seconds);

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double watts() const;  // 0 unless two changes were observed

 private:
  struct Step {
    double seconds, joules;
  };

  std::function<double()> joules_;
  double settled_, last_ = 0;
  Clock::time_point start_ = Clock::now();
  std::optional<Step> first_, latest_;
};

}  // namespace ptxbuilder::bench
