#include "kernels/measure/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <thread>

#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

// The struct nvmlFieldValue_t (NVML API Reference, "Field Values").
struct FieldValue {
  unsigned field_id, scope_id;
  long long timestamp, latency_microseconds;
  int value_type, result;
  union {
    unsigned as_unsigned;
    double as_double;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

constexpr int kClockSm = 1;               // NVML_CLOCK_SM
constexpr int kTemperatureGpu = 0;        // NVML_TEMPERATURE_GPU
constexpr unsigned kPowerInstant = 186;   // NVML_FI_DEV_POWER_INSTANT, in mW
constexpr int kValueTypeUnsignedInt = 1;  // NVML_VALUE_TYPE_UNSIGNED_INT

}  // namespace

// NVML's entry points, which return 0 for success. An optional entry point that NVML lacks is null.
struct Nvml::Library {
  explicit Library(const std::string& path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle) {
      const char* reason = dlerror();
      throw Error(fmt::format("NVML: {} is not found ({})", path, reason ? reason : "unknown"));
    }
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(device_by_pci_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
    find(clock, "nvmlDeviceGetClockInfo");
    find(power, "nvmlDeviceGetPowerUsage");
    find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    find(energy, "nvmlDeviceGetTotalEnergyConsumption");
    find(temperature, "nvmlDeviceGetTemperature");
    find(clock_limits, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(field_values, "nvmlDeviceGetFieldValues");
    find(driver_version, "nvmlSystemGetDriverVersion");
    if (!init || !shutdown || !device_by_pci_bus_id)
      throw Error(
          fmt::format("NVML: {} lacks nvmlInit_v2, nvmlShutdown or nvmlDeviceGetHandleByPciBusId_v2", path));
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
  }

  void* handle;  // remains open, as libcuda does
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_pci_bus_id)(const char*, DeviceHandle**) = nullptr;
  int (*clock)(DeviceHandle*, int, unsigned*) = nullptr;
  int (*power)(DeviceHandle*, unsigned*) = nullptr;
  int (*power_limit)(DeviceHandle*, unsigned*) = nullptr;
  int (*energy)(DeviceHandle*, unsigned long long*) = nullptr;
  int (*temperature)(DeviceHandle*, int, unsigned*) = nullptr;
  int (*clock_limits)(DeviceHandle*, unsigned long long*) = nullptr;
  int (*field_values)(DeviceHandle*, int, FieldValue*) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
};

std::string limit_names(uint64_t limits) {
  // The reasons and their names (NVML API Reference, "NvmlClocksEventReasons"). Bit 0, which means that the
  // GPU is idle, is omitted.
  constexpr std::pair<uint64_t, const char*> kNames[] = {{0x2, "application clocks"},
                                                         {0x4, "power cap"},
                                                         {0x8, "hardware slowdown"},
                                                         {0x10, "sync boost"},
                                                         {0x20, "thermal slowdown (software)"},
                                                         {0x40, "thermal slowdown (hardware)"},
                                                         {0x80, "power brake"},
                                                         {0x100, "display clocks"}};
  std::string text;
  for (auto [bit, name] : kNames) {
    if (!(limits & bit)) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

Nvml::Nvml(const std::string& pci_bus_id, const std::string& library)
    : library_(std::make_unique<Library>(library)) {
  if (int status = library_->init(); status != 0)
    throw Error(fmt::format("NVML: nvmlInit failed with status {}", status));
  if (int status = library_->device_by_pci_bus_id(pci_bus_id.c_str(), &device_); status != 0) {
    (void)library_->shutdown();
    throw Error(fmt::format("NVML: the GPU {} is not found, status {}", pci_bus_id, status));
  }
}

Nvml::~Nvml() { (void)library_->shutdown(); }

Telemetry Nvml::sample() const {
  Telemetry t;
  unsigned number = 0;
  unsigned long long bits = 0;
  if (library_->clock && library_->clock(device_, kClockSm, &number) == 0) t.sm_mhz = number;
  FieldValue power = {};
  power.field_id = kPowerInstant;
  const bool instant = library_->field_values && library_->field_values(device_, 1, &power) == 0 &&
                       power.result == 0 && power.value_type == kValueTypeUnsignedInt;
  if (instant)
    t.watts = power.value.as_unsigned * 1e-3;
  else if (library_->power && library_->power(device_, &number) == 0)  // some GPUs return the mean over a
                                                                       // second
    t.watts = number * 1e-3;
  if (library_->temperature && library_->temperature(device_, kTemperatureGpu, &number) == 0)
    t.celsius = number;
  if (library_->clock_limits && library_->clock_limits(device_, &bits) == 0) t.limits = bits;
  return t;
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  if (!library_->driver_version || library_->driver_version(text, sizeof text) != 0) return "";
  return text;
}

double Nvml::power_limit_watts() const {
  unsigned milliwatts = 0;
  if (!library_->power_limit || library_->power_limit(device_, &milliwatts) != 0) return 0;
  return milliwatts * 1e-3;
}

double Nvml::joules() const {
  unsigned long long millijoules = 0;
  if (!library_->energy || library_->energy(device_, &millijoules) != 0) return 0;
  return static_cast<double>(millijoules) * 1e-3;
}

void EnergyMeter::watch(double seconds) {
  for (const double end = this->seconds() + seconds; this->seconds() < end;) {
    const double joules = joules_(), now = this->seconds();
    if (joules != last_ && last_ != 0 && now > settled_) {
      latest_ = {now, joules};
      if (!first_) first_ = latest_;
    }
    last_ = joules;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

double EnergyMeter::watts() const {
  if (!first_ || latest_->seconds <= first_->seconds) return 0;
  return (latest_->joules - first_->joules) / (latest_->seconds - first_->seconds);
}

}  // namespace ptxbuilder::bench
