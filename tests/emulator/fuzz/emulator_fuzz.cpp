// A libFuzzer target for the emulator and for launch files. Each input runs for a short time, or is refused
// with an Error. An input is PTX, or a launch file if it begins with a brace. The fuzzer changes statements
// in addition to bytes: one is dropped, duplicated or moved, and words are exchanged, so that many inputs are
// still PTX.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "kernels/simulate/simulate.h"
#include "ptxbuilder/error.h"
#include "runtime/buffer.h"
#include "runtime/emulator/entry.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:detect_leaks=0"; }

namespace ptxbuilder {
namespace {

constexpr uint64_t kMostBytes = 1 << 20;  // limit of the buffers that a launch file requests

runtime::EmulatorOptions options(uint64_t seed) {
  runtime::EmulatorOptions o;
  o.seed = seed;
  o.note = [](const std::string&) {};
  o.finding = [](const runtime::EmulatorError&) {};
  o.print = [](const std::string&) {};
  return o;
}

// Each parameter of 8 bytes is the address of the same buffer, and all others are 16.
void run_ptx(const std::string& text) {
  for (const runtime::Entry& entry : runtime::entries(text)) {
    Signature signature;
    signature.kernel = entry.name;
    runtime::Dim3 block =
        entry.block.value_or(runtime::Dim3{entry.threads ? std::min(64u, *entry.threads) : 64u, 1, 1});
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 512) continue;
    const runtime::Dim3 cluster = entry.cluster.value_or(runtime::Dim3{});
    if (uint64_t{cluster.x} * cluster.y * cluster.z > 4) continue;
    signature.threads = block.x * block.y * block.z;
    signature.threads_y = block.y, signature.threads_z = block.z;
    signature.cluster = {cluster.x, cluster.y, cluster.z};
    const auto device = runtime::open_emulator(options(text.size()));
    const auto program = device->load(text, signature);
    runtime::Buffer memory(*device, 65536);
    device->fill(memory.address(), 1, 65536);
    std::vector<std::vector<uint64_t>> values;
    std::vector<const void*> parameters;
    for (const runtime::EntryParameter& p : entry.parameters)
      values.emplace_back((p.bytes + 7) / 8, p.bytes == 8 ? memory.address() : 0x1000000010);
    for (const auto& value : values) parameters.push_back(value.data());
    runtime::Launch launch;
    launch.grid = {cluster.x, cluster.y, cluster.z};
    launch.block = block;
    launch.cluster = cluster;
    device->launch(*program, launch, parameters);
    device->synchronize(std::chrono::milliseconds(50));
  }
}

constexpr const char* kernel = R"(.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .b8 table[16];
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 8 .b8 rest[16]) {
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; ld.param.u32 %r0, [rest+12]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 4; add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2; ld.global.u32 %r2, [%d0];
ld.const.u32 %r3, [table+4]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r0; st.global.u32 [%d1], %r2;
ret;
}
)";

void run_launch_file(const std::string& text) {
  command::LaunchFile file = command::launch_from_json(text, "/nowhere/launch.json");
  uint64_t bytes = 0;
  for (const command::LaunchBuffer& b : file.buffers) bytes += b.bytes();
  uint64_t threads = 0;
  for (const command::KernelLaunch& launch : file.launches) {
    const runtime::Dim3 grid = launch.grid.value_or(runtime::Dim3{}),
                        block = launch.block.value_or(runtime::Dim3{});
    threads += uint64_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
  }
  if (bytes > kMostBytes || threads > 4096) return;
  for (command::LaunchOutput& o : file.outputs) o.write.clear();
  command::SimulateOptions o;
  o.emulator = options(1);
  o.time_limit = std::chrono::milliseconds(50);
  (void)command::simulate(kernel, file, o);
}

std::vector<std::string> split(const std::string& text, const char* behind) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    parts.back() += c;
    if (std::strchr(behind, c)) parts.emplace_back();
  }
  return parts;
}

std::string changed(const std::string& text, std::mt19937& engine) {
  std::vector<std::string> parts = split(text, engine() % 2 ? ";\n" : ",;. []{}");
  const size_t from = engine() % parts.size(), to = engine() % parts.size();
  switch (engine() % 4) {
    case 0:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
      break;
    case 1:
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(to), std::string(parts[from]));
      break;
    case 2:
      std::swap(parts[from], parts[to]);
      break;
    default:
      parts[from] = parts[to];
  }
  std::string result;
  for (const std::string& part : parts) result += part;
  return result;
}

}  // namespace
}  // namespace ptxbuilder

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 engine(seed);
  if (engine() % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string text = ptxbuilder::changed({reinterpret_cast<const char*>(data), size}, engine);
  const size_t length = std::min(text.size(), most);
  std::memcpy(data, text.data(), length);
  return length;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    text.starts_with("{") ? ptxbuilder::run_launch_file(text) : ptxbuilder::run_ptx(text);
  } catch (const ptxbuilder::Error&) {
  } catch (const std::bad_alloc&) {  // PTX may request more memory than is available
  }
  return 0;
}
