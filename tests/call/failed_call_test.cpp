// Tests that a call whose launch fails names the operation and its sizes, and says how to learn more. Also
// tests that kernels of calls are watched if the environment requests it.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>

#include "kernels/call/watched.h"
#include "kernels/gemm/matmul.h"
#include "kernels/rows/rows.h"
#include "mock_libcuda.h"
#include "options.h"
#include "runtime/cuda_device.h"
#include "tests/kit/error_kit.h"

namespace ptxbuilder::test::failed_call_test {
namespace {

using namespace kernels;
using runtime::cu::Status;

MockDriver& fresh_mock() {
  static void* library = dlopen(PTXBUILDER_MOCK_LIBCUDA, RTLD_NOW);
  REQUIRE(library);
  auto* mock = reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();
  *mock = MockDriver{};
  return *mock;
}

// Sets the variable during the lifetime of this object.
struct Watchdog {
  explicit Watchdog(const char* value) { setenv("PTXBUILDER_WATCHDOG", value, 1); }
  ~Watchdog() { unsetenv("PTXBUILDER_WATCHDOG"); }
};

}  // namespace

TEST_CASE("a launch that fails names the call, its sizes and the watchdog") {
  MockDriver& mock = fresh_mock();
  mock.reads_ptx = true;
  const auto device = runtime::open_cuda_device("sm_90a", PTXBUILDER_MOCK_LIBCUDA);
  MatmulOptions options;
  options.compiler.driver_assembles = true;
  Matmul matmul(*device, options);
  runtime::Buffer a(*device, 2 * 64 * 32), b(*device, 2 * 48 * 32), d(*device, 2 * 64 * 48);
  const MatmulArguments product = {.m = 64,
                                   .n = 48,
                                   .k = 32,
                                   .a = {.memory = a, .type = DType::bf16, .stride = 32},
                                   .b = {.memory = b, .type = DType::bf16, .stride = 32},
                                   .d = {.memory = d, .type = DType::bf16, .stride = 48}};
  matmul(product);
  CHECK(mock.launches == 1);
  const auto check_told = [&](const MatmulArguments& call) {
    const std::string told = error_of([&] { matmul(call); });
    CAPTURE(told);
    for (const char* part : {" or one queued before it failed", "this call is matmul: ", "64", "48", "32",
                             "PTXBUILDER_WATCHDOG=1000"})
      CHECK(told.find(part) != std::string::npos);
  };
  // Other memory needs another tensor map. Encoding it reports a failure of an earlier kernel.
  runtime::Buffer other(*device, 2 * 64 * 32);
  MatmulArguments of_other = product;
  of_other.a.memory = other;
  mock.encode = Status::illegal_address;
  check_told(of_other);
  mock.encode = Status::success;
  mock.launch = Status::launch_failed;
  check_told(product);
}

TEST_CASE("the same holds for an operation on rows, prepared or not") {
  MockDriver& mock = fresh_mock();
  mock.reads_ptx = true;
  for (const bool is_prepared : {false, true}) {
    const auto device = runtime::open_cuda_device("sm_90a", PTXBUILDER_MOCK_LIBCUDA);
    CallOptions options;
    options.compiler.driver_assembles = true;
    Rows rows(*device, options);
    runtime::Buffer x(*device, 2 * 5 * 64), y(*device, 2 * 5 * 64);
    RowCall call;
    call.operation = &row_operation("softmax");
    call.tensors = {{{DType::bf16, {5, 64}, x}}, {{DType::bf16, {5, 64}, y}}};
    mock.launch = is_prepared ? Status::success : Status::launch_failed;
    if (is_prepared) rows(call);
    mock.launch = Status::launch_failed;
    const std::string told = error_of([&] { rows(call); });
    CAPTURE(told);
    for (const char* part :
         {"this call is softmax x bf16 5 x 64, y bf16 5 x 64. ", "PTXBUILDER_WATCHDOG=1000"})
      CHECK(told.find(part) != std::string::npos);
    call.tensors[1].reset();
    CHECK_ERROR(rows(call), "softmax");
    CHECK(error_of([&] { rows(call); }).find("this call is") ==
          std::string::npos);  // the error is not the device's
  }
}

TEST_CASE("the environment's limit applies to kernels that calls make, and an invalid one is an error") {
  {
    const WatchedKernels none;
    CHECK(WatchdogScope::milliseconds() == 0);
  }
  {
    const Watchdog variable("50");
    {
      const WatchedKernels watched;
      CHECK(WatchdogScope::milliseconds() == 50);
      const WatchdogScope nearer(7);
      const WatchedKernels again;  // a scope has precedence
      CHECK(WatchdogScope::milliseconds() == 7);
    }
    CHECK(WatchdogScope::milliseconds() == 0);
  }
  for (const char* value : {"", "0", "abc", "5 s", "-1", "2000000", "99999999999"}) {
    const Watchdog variable(value);
    CAPTURE(value);
    CHECK_ERROR(WatchedKernels(), ", but must be a limit of 1 to 1048576 ms for each wait of a kernel");
  }
}

}  // namespace ptxbuilder::test::failed_call_test
