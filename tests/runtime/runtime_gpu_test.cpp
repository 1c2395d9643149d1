// Tests the runtime on a GPU: small kernels, and failures that must not end the process.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <thread>

#include "driver_linker.h"
#include "options.h"
#include "runtime/cubin_check.h"
#include "runtime/cuda_device.h"
#include "runtime/driver.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"
#include "runtime/tensor_map.h"
#include "runtime_gpu_kernels.h"
#include "tensor_map_cases.h"
#include "tests/kit/error_kit.h"

namespace ptxbuilder::test::runtime_gpu_test {
using namespace runtime;
using namespace std::chrono_literals;

namespace {

// Returns the GPU, or null after printing the reason.
Device* gpu() {
  static std::string reason;
  static std::unique_ptr<Device> device = []() -> std::unique_ptr<Device> {
    try {
      return open_device("cuda");
    } catch (const Error& e) {
      reason = e.what();
      return nullptr;
    }
  }();
  if (!device) test::skip(reason);
  return device.get();
}

#define NEED_GPU         \
  Device* found = gpu(); \
  if (!found) return;    \
  Device& device = *found

Parameter pointer_to(const char* name, DType dtype) {
  return {.name = name, .kind = Parameter::Kind::pointer, .dtype = dtype, .tensor_map = {}};
}

Parameter value(const char* name, DType dtype) {
  return {.name = name, .kind = Parameter::Kind::scalar, .dtype = dtype, .tensor_map = {}};
}

Parameter box_of(const char* name) {
  return {.name = name,
          .kind = Parameter::Kind::tensor_map,
          .dtype = DType::f32,
          .tensor_map = {.dtype = DType::f32, .box = {16, 8}, .element_strides = {1, 1}}};
}

Signature signature(const char* kernel, uint32_t threads, std::vector<Parameter> parameters) {
  Signature s;
  s.kernel = kernel;
  s.threads = threads;
  s.parameters = std::move(parameters);
  return s;
}

Signature add_signature() {
  return signature("add", 128,
                   {pointer_to("a", DType::f32), pointer_to("b", DType::f32), pointer_to("c", DType::f32),
                    value("n", DType::u32)});
}

// Runs c = a + b over 1000 of 1024 elements, with any image.
void check_add(Device& device, const std::string& image) {
  std::vector<float> a(1024), b(1024);
  for (int i = 0; i < 1024; ++i) a[i] = static_cast<float>(i), b[i] = 0.5f;
  Buffer da = Buffer::of(device, a), db = Buffer::of(device, b), dc(device, 4096);
  dc.fill(0xff);
  LoadedKernel kernel(device, image, add_signature());
  kernel.launch({.grid = {8, 1, 1}},
                {pointer(da, DType::f32), pointer(db, DType::f32), pointer(dc, DType::f32), scalar(1000u)});
  device.synchronize();
  const std::vector<float> c = dc.copy_out<float>();
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong += c[i] != static_cast<float>(i) + 0.5f;
  CHECK(wrong == 0);
  CHECK(std::isnan(c[1000]));
}

struct ChildResult {
  std::string output;
  bool ended = false;  // the child ended within the limit, without being killed
  int status = -1;
};

// Runs a test of this executable that is skipped by default, in a separate process, for at most `limit`.
ChildResult run_child(const std::string& test, std::chrono::seconds limit) {
  int pipe_ends[2];
  REQUIRE(pipe2(pipe_ends, O_CLOEXEC) == 0);
  std::string name = "--test-case=" + test, all = "--no-skip", program = "/proc/self/exe";
  char* arguments[] = {program.data(), all.data(), name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  ChildResult result;
  const auto end = std::chrono::steady_clock::now() + limit;
  fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
  while (!result.ended && std::chrono::steady_clock::now() < end) {
    pollfd wait = {pipe_ends[0], POLLIN, 0};
    poll(&wait, 1, 20);
    char text[4096];
    for (ssize_t n; (n = read(pipe_ends[0], text, sizeof text)) > 0;)
      result.output.append(text, static_cast<size_t>(n));
    result.ended = waitpid(child, &result.status, WNOHANG) == child;
  }
  if (!result.ended) {
    kill(child, SIGKILL);
    waitpid(child, &result.status, 0);
  }
  char text[4096];
  for (ssize_t n; (n = read(pipe_ends[0], text, sizeof text)) > 0;)
    result.output.append(text, static_cast<size_t>(n));
  close(pipe_ends[0]);
  return result;
}

void say(const std::string& text) { std::cout << text << std::endl; }

}  // namespace

TEST_CASE("the GPU tells what it is") {
  NEED_GPU;
  const DeviceProperties p = device.properties();
  MESSAGE(p.name, ", ", p.multiprocessors, " SMs, ", p.memory_bytes, " B, ", p.driver);
  CHECK(p.compute_capability == 90);
  CHECK(p.shared_bytes_per_cta == 232448);
  CHECK(p.multiprocessors > 0);
}

TEST_CASE("add, from PTX and from a cubin of the driver's compiler") {
  NEED_GPU;
  check_add(device, kAdd);
  const JitResult jit = assemble_with_driver(kAdd);
  MESSAGE("log of the driver's compiler: ", jit.log);
  CHECK(is_cubin(jit.cubin));
  check_cubin(jit.cubin, "add");
  check_add(device, jit.cubin);
}

TEST_CASE("200 KB of dynamic shared memory") {
  NEED_GPU;
  Signature s = signature("large_shared", 256, {pointer_to("out", DType::u32)});
  s.dynamic_shared_bytes = 200 * 1024;
  LoadedKernel kernel(device, kLargeShared, s);
  Buffer out(device, 1024);
  kernel.launch({.grid = {1, 1, 1}}, {pointer(out, DType::u32)});
  const auto values = out.copy_out<uint32_t>();
  for (uint32_t i = 0; i < 256; ++i) CHECK(values[i] == 255 - i);
  s.dynamic_shared_bytes = 232448;
  CHECK_NOTHROW(LoadedKernel(device, kLargeShared, s));
  s.dynamic_shared_bytes = 232449;
  CHECK_ERROR(LoadedKernel(device, kLargeShared, s), "1 B over this GPU's 232448 B per CTA");
}

TEST_CASE("clusters") {
  NEED_GPU;
  Buffer out(device, 4 * 32);
  for (uint32_t size : {1u, 2u, 4u, 8u, 16u}) {
    CAPTURE(size);
    Signature s = signature("cluster", 64, {pointer_to("out", DType::u32)});
    s.cluster = {size, 1, 1};
    out.fill(0xff);
    LoadedKernel kernel(device, kCluster, s);
    kernel.launch({.grid = {32, 1, 1}}, {pointer(out, DType::u32)});
    const auto values = out.copy_out<uint32_t>();
    int wrong = 0;
    for (uint32_t i = 0; i < 32; ++i) wrong += values[i] != i % size + 100 * size;
    CHECK(wrong == 0);
  }
}

TEST_CASE("a cluster in the image and another in the sidecar") {
  NEED_GPU;
  Buffer out(device, 16);
  Signature s = signature("cluster_of_two", 64, {pointer_to("out", DType::u32)});
  CHECK_ERROR(LoadedKernel(device, kClusterOfTwo, s),
              "the cluster is 2 x 1 x 1 in the image, but 1 x 1 x 1 in the sidecar");
  s.cluster = {2, 1, 1};
  LoadedKernel kernel(device, kClusterOfTwo, s);
  CHECK_ERROR(kernel.launch({.grid = {3, 1, 1}}, {pointer(out, DType::u32)}), "3 % 2 = 1 in x; next: 4");
  kernel.launch({.grid = {4, 1, 1}}, {pointer(out, DType::u32)});
  CHECK(out.copy_out<uint32_t>() == std::vector<uint32_t>{200, 201, 200, 201});
}

TEST_CASE("a box is loaded and stored by TMA, zeros filled in beyond the edge") {
  NEED_GPU;
  constexpr int kWidth = 40, kHeight = 20;
  std::vector<float> in(kWidth * kHeight);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  Buffer din = Buffer::of(device, in), dout(device, 16 * 8 * 4);
  Signature s = signature("copy_box", 32,
                          {box_of("in"), box_of("out"), value("x", DType::s32), value("y", DType::s32)});
  s.static_shared_bytes = 520;
  LoadedKernel kernel(device, kCopyBox, s);
  for (auto [x, y] : {std::pair{0, 0}, {8, 3}, {32, 15}, {-4, -2}}) {
    CAPTURE(x);
    CAPTURE(y);
    dout.fill(0xff);
    kernel.launch({.grid = {1, 1, 1}},
                  {tensor(din, DType::f32, {kWidth, kHeight}).named("in"),
                   tensor(dout, DType::f32, {16, 8}).named("out"), scalar(x), scalar(y)});
    const auto out = dout.copy_out<float>();
    int wrong = 0;
    for (int j = 0; j < 8; ++j)
      for (int i = 0; i < 16; ++i) {
        const int column = x + i, row = y + j;
        const bool inside = column >= 0 && column < kWidth && row >= 0 && row < kHeight;
        wrong += out[16 * j + i] != (inside ? in[kWidth * row + column] : 0.0f);
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the driver accepts what our rules accept, and refuses what they refuse") {
  NEED_GPU;
  const cu::Driver driver;
  auto data_type = [](DType type) {
    switch (type) {
      case DType::bf16:
        return cu::TensorMapDataType::bfloat16;
      case DType::f16:
        return cu::TensorMapDataType::float16;
      case DType::u16:
        return cu::TensorMapDataType::uint16;
      default:
        REQUIRE(type == DType::e4m3);
        return cu::TensorMapDataType::uint8;
    }
  };
  device.make_current();  // the driver's own call requires this
  for (const TensorMapCase& rule : tensor_map_cases()) {
    INFO("rule: ", std::string(rule.rule));
    TensorMapArguments kept = legal_tensor_map(), broken = legal_tensor_map();
    rule.keeps(kept);
    rule.breaks(broken);
    CHECK(error_of([&] { device.encode(kept); }) == "");
    if (!rule.driver_refuses) continue;
    TensorMap map;
    const TensorMapRecipe& r = broken.recipe;
    const uint64_t none = 0;
    const cu::Status status = driver.tensor_map_encode_tiled.status(
        &map, data_type(r.dtype), static_cast<uint32_t>(r.rank()), reinterpret_cast<void*>(broken.address),
        broken.shape.data(), broken.strides.empty() ? &none : broken.strides.data(), r.box.data(),
        r.element_strides.data(), static_cast<int>(r.interleave), static_cast<int>(r.swizzle),
        static_cast<int>(r.l2_promotion), static_cast<int>(r.oob_fill));
    CHECK(status == cu::Status::invalid_value);
  }
  for (DType type :
       {DType::u8, DType::s8, DType::u16, DType::s16, DType::u32, DType::s32, DType::u64, DType::s64,
        DType::f16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2, DType::f32, DType::f64})
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
      CAPTURE(name(type));
      CAPTURE(name(swizzle));
      TensorMapArguments a = legal_tensor_map();
      const auto size = static_cast<uint32_t>(size_of(type));
      a.recipe.dtype = type;
      a.recipe.swizzle = swizzle;
      a.recipe.box[0] = 32 / size;
      a.strides = {1024ull * size};
      CHECK(error_of([&] { device.encode(a); }) == "");
    }
}

TEST_CASE("programmatic dependent launches stay in order") {
  NEED_GPU;
  Buffer v(device, 4);
  LoadedKernel kernel(device, kStep, signature("step", 32, {pointer_to("value", DType::u32)}));
  uint32_t expected = 0;
  v.fill(0);
  for (int i = 0; i < 10; ++i) {
    kernel.launch({.grid = {1, 1, 1}, .programmatic_dependent_launch = true}, {pointer(v, DType::u32)});
    expected = 3 * expected + 1;
  }
  CHECK(v.copy_out<uint32_t>()[0] == expected);
}

TEST_CASE("PTX and cubins that are not good") {
  NEED_GPU;
  const Signature bad = signature("bad", 32, {pointer_to("a", DType::u32)});
  CHECK_ERROR(LoadedKernel(device, kBad, bad), "the driver rejected the PTX of kernel 'bad'");
  CHECK_ERROR(LoadedKernel(device, kBad, bad), "frobnicate");
  CHECK_ERROR(assemble_with_driver(kBad), "frobnicate");
  Signature other = add_signature();
  other.kernel = "subtract";
  CHECK_ERROR(LoadedKernel(device, kAdd, other), "the image has no kernel 'subtract'");
  const std::string cubin = assemble_with_driver(kAdd).cubin;
  CHECK_ERROR(LoadedKernel(device, cubin, other), "the cubin has no kernel 'subtract' (it has: add)");
  for (size_t length : {cubin.size() / 4, cubin.size() / 2, cubin.size() - 1})
    CHECK_ERROR(LoadedKernel(device, cubin.substr(0, length), add_signature()), "corrupt cubin: ");
  Signature fewer = add_signature(), wider = add_signature();
  fewer.parameters.pop_back();
  wider.parameters[3].dtype = DType::u64;
  CHECK_ERROR(LoadedKernel(device, cubin, fewer), "the image takes more than the sidecar's 3 parameters");
  CHECK_ERROR(LoadedKernel(device, cubin, wider),
              "parameter 3 'n' is 4 B in the image, but 8 B in the sidecar");
  check_add(device, cubin);  // the device must still work after that
}

TEST_CASE("time measures on the device") {
  NEED_GPU;
  Buffer v(device, 4);
  v.fill(0);
  LoadedKernel kernel(device, kStep, signature("step", 32, {pointer_to("value", DType::u32)}));
  const auto us = device.time(3, 20, [&] { kernel.launch({.grid = {1, 1, 1}}, {pointer(v, DType::u32)}); });
  REQUIRE(us.size() == 20);
  for (double t : us) {  // the kernel sleeps 20 us, plus or minus half
    CHECK(t > 5.0);
    CHECK(t < 500.0);
  }
}

namespace {

constexpr uint64_t kLongWait = 200'000'000;  // in nanoseconds

LoadedKernel late_kernel(Device& device) {
  return LoadedKernel(
      device, kLate,
      signature("late", 1,
                {pointer_to("value", DType::u32), value("add", DType::u32), value("wait", DType::u64)}));
}

void launch_late(LoadedKernel& kernel, const Buffer& value, uint32_t add, uint64_t wait, Stream stream) {
  kernel.launch({.grid = {1}, .stream = stream}, {pointer(value, DType::u32), scalar(add), scalar(wait)});
}

}  // namespace

TEST_CASE("two streams, each with a long kernel ahead, keep their own order and do not wait for each other") {
  NEED_GPU;
  LoadedKernel kernel = late_kernel(device);
  auto a = device.create_stream(), b = device.create_stream();
  Buffer in_a = Buffer::of(device, std::vector<uint32_t>{0}),
         in_b = Buffer::of(device, std::vector<uint32_t>{0});
  auto a_is_done = device.create_event(), b_is_done = device.create_event();
  launch_late(kernel, in_a, 1, 2 * kLongWait, *a);
  launch_late(kernel, in_b, 1, kLongWait / 2, *b);
  for (uint32_t add : {2u, 3u}) {
    launch_late(kernel, in_a, add, 0, *a);
    launch_late(kernel, in_b, add, 0, *b);
  }
  a_is_done->record(*a);
  b_is_done->record(*b);
  b_is_done->wait();
  CHECK_FALSE(a_is_done->is_done());
  a_is_done->wait();
  for (const Buffer* result : {&in_a, &in_b}) CHECK(result->copy_out<uint32_t>()[0] == (1 * 3 + 2) * 3 + 3);
}

TEST_CASE("an event holds another stream back") {
  NEED_GPU;
  LoadedKernel kernel = late_kernel(device);
  auto a = device.create_stream(), b = device.create_stream();
  Buffer value = Buffer::of(device, std::vector<uint32_t>{0});
  auto event = device.create_event();
  launch_late(kernel, value, 1, kLongWait, *a);
  event->record(*a);
  event->hold(*b);
  launch_late(kernel, value, 2, 0, *b);
  device.synchronize(*b);
  CHECK(value.copy_out<uint32_t>()[0] == 5);
}

TEST_CASE("a capture that the caller began as PyTorch does holds a kernel that is loaded meanwhile") {
  NEED_GPU;
  const cu::Driver driver;
  device.make_current();
  auto stream = device.create_stream();
  const auto handle = static_cast<cu::Stream>(Stream(*stream).handle());
  driver.stream_begin_capture(handle, cu::CaptureMode::global);
  auto opened = open_device("cuda");
  Buffer value = Buffer::of(device, std::vector<uint32_t>{1});
  LoadedKernel kernel = late_kernel(*opened);
  launch_late(kernel, value, 2, 0, *stream);
  cu::Graph graph = nullptr;
  driver.stream_end_capture(handle, &graph);
  cu::GraphExec executable = nullptr;
  driver.graph_instantiate(&executable, graph, 0);
  driver.graph_launch(executable, handle);
  device.synchronize(*stream);
  CHECK(value.copy_out<uint32_t>()[0] == 5);
  (void)driver.graph_exec_destroy.status(executable);
  (void)driver.graph_destroy.status(graph);
}

// The following tests end a context or read output, so each runs in a separate process.

TEST_CASE("child: work is queued" * doctest::skip()) {
  static auto device = open_device("cuda");  // destroyed after main()
  static LoadedKernel kernel = late_kernel(*device);
  static Buffer value = Buffer::of(*device, std::vector<uint32_t>{0});
  static auto stream = device->create_stream();
  launch_late(kernel, value, 1, kLongWait, *stream);
  launch_late(kernel, value, 1, kLongWait, {});
  say("queued");
}

TEST_CASE("a process that ends with work queued ends with 0") {
  NEED_GPU;
  (void)device;
  const ChildResult child = run_child("child: work is queued", 60s);
  CAPTURE(child.output);
  CHECK(child.output.find("queued") != std::string::npos);
  CHECK(child.ended);
  CHECK(child.status == 0);
}

TEST_CASE("child: fork" * doctest::skip()) {
  auto device = open_device("cuda");
  Buffer value = Buffer::of(*device, std::vector<uint32_t>{7});
  const pid_t fork_of_this = fork();
  if (fork_of_this == 0) {
    say(error_of([&] { Buffer(*device, 16); }));
    say(error_of([&] { open_device("cuda"); }));
    _exit(0);
  }
  int status = -1;
  waitpid(fork_of_this, &status, 0);
  say(status == 0 ? "the fork returned" : "the fork failed");
  say("the parent reads " + std::to_string(value.copy_out<uint32_t>()[0]));
}

TEST_CASE("a fork of a process that uses the GPU gets an error that says so, and the process goes on") {
  NEED_GPU;
  (void)device;
  const ChildResult child = run_child("child: fork", 60s);
  CAPTURE(child.output);
  const std::string words = "this process is a fork of one that used CUDA";
  const size_t first = child.output.find(words);
  REQUIRE(first != std::string::npos);
  CHECK(child.output.find(words, first + 1) != std::string::npos);
  CHECK(child.output.find("the fork returned") != std::string::npos);
  CHECK(child.output.find("the parent reads 7") != std::string::npos);
  CHECK(child.status == 0);
}

TEST_CASE("child: spin" * doctest::skip()) {
  {
    auto device = open_device("cuda");
    Buffer flag(*device, 4);
    flag.fill(0);
    LoadedKernel kernel(*device, kSpin, signature("spin", 1, {pointer_to("flag", DType::u32)}));
    device->synchronize();
    kernel.launch({.grid = {1, 1, 1}}, {pointer(flag, DType::u32)});
    try {
      device->synchronize(1s);
    } catch (const TimeoutError& e) {
      say(std::string("TimeoutError: ") + e.what());
    }
    say(error_of([&] { flag.copy_out<uint32_t>(); }));
  }
  say("destructors returned");
}

TEST_CASE("a kernel that spins for ever ends in a TimeoutError, and destructors return") {
  NEED_GPU;
  (void)device;
  const ChildResult child = run_child("child: spin", 60s);
  CAPTURE(child.output);
  CHECK(child.output.find("TimeoutError: kernel 'spin' had not finished after 1000 ms") != std::string::npos);
  CHECK(child.output.find("the device cannot be used again after: kernel 'spin'") != std::string::npos);
  CHECK(child.output.find("destructors returned") != std::string::npos);
  CHECK(child.ended);
  check_add(device, kAdd);  // a hang in another process must not affect this one
}

TEST_CASE("child: fail" * doctest::skip()) {
  {
    auto device = open_device("cuda");
    Buffer memory(*device, 4);
    LoadedKernel kernel(*device, kTrap, signature("fail", 1, {}));
    kernel.launch({.grid = {1, 1, 1}}, {});
    say(error_of([&] { device->synchronize(); }));
    say(error_of([&] { memory.copy_out<uint32_t>(); }));
  }
  say("destructors returned");
}

TEST_CASE("a kernel that traps is named") {
  NEED_GPU;
  (void)device;
  const ChildResult child = run_child("child: fail", 60s);
  CAPTURE(child.output);
  CHECK(child.output.find("kernel 'fail' or one queued before it failed") != std::string::npos);
  CHECK(child.output.find("the device cannot be used again after: kernel 'fail'") != std::string::npos);
  CHECK(child.output.find("destructors returned") != std::string::npos);
  CHECK(child.ended);
}

TEST_CASE("child: print" * doctest::skip()) {
  auto device = open_device("cuda");
  LoadedKernel kernel(*device, kPrint, signature("print", 1, {value("number", DType::u32)}));
  kernel.launch({.grid = {1, 1, 1}}, {scalar(42u)});
  device->synchronize();
  fflush(stdout);
  say("synchronized");
}

TEST_CASE("what a kernel prints is there once synchronize returns") {
  NEED_GPU;
  (void)device;
  const ChildResult child = run_child("child: print", 60s);
  CAPTURE(child.output);
  const size_t printed = child.output.find("number 42 printed"),
               synchronized = child.output.find("synchronized");
  REQUIRE(printed != std::string::npos);
  REQUIRE(synchronized != std::string::npos);
  CHECK(printed < synchronized);
}

}  // namespace ptxbuilder::test::runtime_gpu_test
