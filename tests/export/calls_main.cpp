// Launches exported kernels on the mock driver, and checks the driver's calls, the current context, and the
// errors. The kernels are saxpy, add_multicast and a matrix product. In add_multicast, two CTAs of a cluster
// copy with tensor maps; in the matrix product, CTAs wait for each other.
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "add_multicast.h"
#include "divided.h"
#include "mock_libcuda.h"
#include "saxpy.h"

namespace {

using namespace ptxbuilder::runtime::cu;

void* const library = dlopen("libcuda.so.1", RTLD_NOW);
MockDriver& mock = *reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();

int failures = 0;
void check(bool good, const std::string& what, int line) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "calls_main.cpp:%d: %s\n", line, what.c_str());
}
#define CHECK(what) check(what, #what, __LINE__)

// Checks that a call was refused with the status, and that the error contains `text`.
void refused(int line, int status, int wanted, const char* (*error_of)(), const std::string& text) {
  const std::string error = error_of();
  check(status == wanted && error.find(text) != std::string::npos,
        text + "; got " + std::to_string(status) + " " + error, line);
}

Context context(uintptr_t number) { return reinterpret_cast<Context>(number); }
Context current() {
  Context now = nullptr;
  reinterpret_cast<Status (*)(Context*)>(dlsym(library, "cuCtxGetCurrent"))(&now);
  return now;
}
void make_current(Context c) { reinterpret_cast<Status (*)(Context)>(dlsym(library, "cuCtxSetCurrent"))(c); }

alignas(256) float memory[64];
int saxpy(uint32_t count, const uint32_t* grid = nullptr, void* stream = nullptr) {
  return saxpy_launch(memory, memory, 2, count, grid, stream);
}
#define REFUSED(call, wanted, text) refused(__LINE__, call, wanted, saxpy_error, text)

void before_the_first_launch() {
  mock.init = Status::no_device;
  REFUSED(saxpy(32), 100, "saxpy: cuInit of the driver failed: CUDA_ERROR_NO_DEVICE (100)");
  mock.init = Status::success;
  mock.major = 10;
  REFUSED(saxpy(32), -1,
          "saxpy: kernel 'saxpy' runs only on GPUs of compute capability 9.0, but device 0 has 10.0");
  CHECK(mock.libraries == 0 && mock.launches == 0 && !current());
  mock.major = 9;
  mock.load = static_cast<Status>(200);
  REFUSED(saxpy(32), 200, "saxpy: cuLibraryLoadData of saxpy failed: CUDA_ERROR_OF_MOCK (200)");
  CHECK(!current());
  mock.load = Status::success;
}

// Eight threads call at once, without contexts, while the caller captures a stream.
void first_use() {
  mock.capturing = true, mock.capture_mode = CaptureMode::global;
  std::vector<std::thread> threads;
  std::vector<int> results(8, -2);
  int arrived = 0;
  for (int& result : results)
    threads.emplace_back([&] {
      __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
      while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 8) {
      }
      result = saxpy(100);
      if (current()) result = -3;
    });
  for (std::thread& t : threads) t.join();
  mock.capturing = false;
  CHECK(mock.ended_captures == 0 && mock.relaxed_threads == 0);
  for (int result : results) CHECK(result == 0);
  CHECK(mock.launches == 8 && mock.libraries >= 1 && mock.libraries <= 8);
}

void calls() {
  const int libraries = mock.libraries, retains = mock.context_retains;
  mock.max_dynamic_shared = -1;
  mock.parameter_sizes = {8, 8, 4, 4};
  CHECK(saxpy(1000) == 0);
  CHECK(mock.libraries == libraries && mock.max_dynamic_shared == -1);  // both happen only once
  CHECK(mock.launch_context == context(1) && !current());
  CHECK(mock.config.grid_x == 32 && mock.config.grid_y == 1 && mock.config.block_x == 32);
  CHECK(mock.config.stream == nullptr && mock.attributes.empty());
  CHECK(mock.parameters[0] == reinterpret_cast<uint64_t>(memory) && mock.parameters[2] == 0x40000000 &&
        mock.parameters[3] == 1000);
  const uint32_t grid[3] = {5, 6, 7};
  CHECK(saxpy(1000, grid) == 0);
  CHECK(mock.config.grid_x == 5 && mock.config.grid_y == 6 && mock.config.grid_z == 7);

  int own = 0;
  mock.stream_context = context(102);
  CHECK(saxpy(1, nullptr, &own) == 0);
  CHECK(mock.launch_context == context(102) && !current());
  CHECK(mock.config.stream == reinterpret_cast<Stream>(&own) &&
        mock.max_dynamic_shared == 0);  // the stream and the kernel of GPU 2
  CHECK(saxpy(1, nullptr, reinterpret_cast<void*>(2)) == 0);
  CHECK(mock.launch_context == context(1) && !current());
  make_current(context(101));
  CHECK(saxpy(1, nullptr, &own) == 0);
  CHECK(mock.launch_context == context(101) && current() == context(101));
  make_current(nullptr);
  CHECK(mock.context_retains == retains);  // retained once, by the first use

  REFUSED(saxpy(0), -1, "saxpy: the grid ceil_div(count, 32) x 1 x 1: less than one CTA, with count = 0");
  const uint32_t none[3] = {1, 0, 1};
  REFUSED(saxpy(1, none), -1, "kernel 'saxpy': the grid has 0 CTAs along y, but must have 1 to 65535");
  mock.launch = Status::launch_out_of_resources;
  REFUSED(saxpy(1), 701, "saxpy: cuLaunchKernelEx of saxpy failed: CUDA_ERROR_OF_MOCK (701)");
  mock.launch = Status::not_initialized;
  REFUSED(saxpy(1), 3, "a process that was forked");
  mock.launch = Status::success;
  CHECK(!current());
}

alignas(256) char block[256 * 128 * 2];
add_multicast_L_tensor whole() { return {block, {128, 256}, {256}}; }
int add(const add_multicast_L_tensor& l, const uint32_t* grid = nullptr) {
  const add_multicast_R_tensor r = {block, {128, 256}, {256}};
  const add_multicast_Out_tensor out = {block, {128, 256}, {256}};
  return add_multicast_launch(&l, &r, &out, grid, nullptr);
}
#undef REFUSED
#define REFUSED(call, wanted, text) refused(__LINE__, call, wanted, add_multicast_error, text)

void tensor_maps() {
  CHECK(add_multicast_load() == 0);
  CHECK(mock.max_dynamic_shared > 48 * 1024);
  const int encodes = mock.encodes;
  mock.parameter_sizes = {8, 8, 8};  // the mock's maps have the addresses of these parameters
  CHECK(add(whole()) == 0);
  CHECK(mock.encodes == encodes + 3 && mock.parameters[0] == reinterpret_cast<uint64_t>(block));
  CHECK(mock.config.grid_x == 2 &&
        mock.config.shared_bytes == static_cast<unsigned>(mock.max_dynamic_shared));
  CHECK(mock.attributes.size() == 1 && mock.attributes[0].id == LaunchAttributeId::cluster_dimension &&
        mock.attributes[0].value.cluster_dim.x == 2 && mock.attributes[0].value.cluster_dim.z == 1);
  const uint32_t grid[3] = {3, 1, 1};
  REFUSED(add(whole(), grid), -1,
          "kernel 'add_multicast': 3 CTAs along x are not a multiple of the cluster's 2");
  auto with = [](auto change) {
    add_multicast_L_tensor l = whole();
    change(l);
    return add(l);
  };
  const int before = mock.encodes;
  REFUSED(with([](auto& l) { l.data = block + 8; }), -1, "add_multicast: parameter 'L': the address 0x");
  REFUSED(with([](auto& l) { l.shape[1] = 0; }), -1,
          "parameter 'L': shape[1] = 0 is not in 1 to 2^32 elements");
  REFUSED(with([](auto& l) { l.stride_bytes[0] = 264; }), -1,
          "parameter 'L': stride_bytes[0] = 264 is not a multiple of 16");
  REFUSED(with([](auto& l) { l.stride_bytes[0] = 240; }), -1,
          "parameter 'L': stride_bytes[0] = 240 is less than a row, 256 B");
  REFUSED(with([](auto& l) { l.stride_bytes[0] = uint64_t{1} << 40; }), -1, "is not below 2^40");
  REFUSED(add_multicast_launch(nullptr, nullptr, nullptr, nullptr, nullptr), -1, "parameter 'L' is NULL");
  CHECK(mock.encodes == before);  // no map reached the driver
  mock.encode = Status::invalid_value;
  REFUSED(add(whole()), 1, "add_multicast: cuTensorMapEncodeTiled of L failed: CUDA_ERROR_OF_MOCK (1)");
  mock.encode = Status::success;
  CHECK(!current());
}

void attributes() {
  mock.parameter_sizes = {8, 8, 8, 4, 4, 4, 8};
  const divided_A_tensor a = {block, {64, 64}, {128}};
  const divided_B_tensor b = {block, {64, 64}, {128}};
  const divided_D_tensor d = {block, {64, 64}, {128}};
  CHECK(divided_launch(&a, &b, &d, 64, 64, 64, reinterpret_cast<float*>(block), nullptr, nullptr) == 0);
  CHECK(mock.attributes.size() == 2);
  CHECK(mock.attributes[0].id == LaunchAttributeId::programmatic_stream_serialization &&
        mock.attributes[0].value.programmatic_stream_serialization_allowed == 1);
  CHECK(mock.attributes[1].id == LaunchAttributeId::cooperative && mock.attributes[1].value.cooperative == 1);
}

}  // namespace

int main() {
  before_the_first_launch();
  first_use();
  calls();
  tensor_maps();
  attributes();
  if (failures == 0) std::puts("all calls are right");
  return failures != 0;
}
