// Compares kernels that nvcc compiled from CUDA C++ with the expected results.
#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>

#include "emulator_kit.h"
#include "options.h"

namespace ptxbuilder::runtime::emulator_cuda_test {
namespace {

// Returns the PTX of tests/emulator/kernels.cu, or "" if there is no nvcc.
const std::string& kernels() {
  static const std::string text = [] {
    std::string nvcc =
        std::system("nvcc --version > /dev/null 2>&1") == 0 ? "nvcc" : "/usr/local/cuda/bin/nvcc";
    auto out = std::filesystem::temp_directory_path() /
               ("emulator_kernels_" + std::to_string(std::random_device{}()) + ".ptx");
    std::string command =
        nvcc + " -std=c++17 -arch=sm_90a -O3 -lineinfo -ptx " PTXBUILDER_TEST_DIR "/emulator/kernels.cu -o " +
        out.string() + " > /dev/null 2>&1";
    std::string ptx;
    if (std::system(command.c_str()) == 0) {
      std::ifstream in(out);
      std::stringstream s;
      s << in.rdbuf();
      ptx = s.str();
    }
    std::filesystem::remove(out);
    return ptx;
  }();
  return text;
}

// Runs `test` with the kernel on several schedules, or reports why it cannot.
template <class F>
void with_kernel(const char* name, uint32_t threads, F test) {
  if (kernels().empty()) {
    test::skip("no nvcc that compiles tests/emulator/kernels.cu");
    return;
  }
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EmulatorOptions options;
    options.seed = seed;
    Bench bench(kernels(), threads, options, name);
    CAPTURE(name);
    CAPTURE(seed);
    std::string what;
    auto fault = fault_of([&] { test(bench); }, &what);
    CHECK_MESSAGE(!fault, what);
  }
}

std::vector<float> random_floats(size_t n, float from = -1, float to = 1) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<float> d(from, to);
  std::vector<float> v(n);
  for (float& x : v) x = d(engine);
  return v;
}

TEST_CASE("emulator: nvcc, saxpy") {
  with_kernel("saxpy", 128, [](Bench& b) {
    auto x = random_floats(1000), y = x;
    Address dx = b.upload(x), dy = b.upload(y);
    b.run({8, 1, 1}, 0, dy, dx, 2.5f, 1000);
    auto r = b.download<float>(dy, 1000);
    for (size_t i = 0; i < 1000; ++i) CHECK(r[i] == std::fma(2.5f, x[i], x[i]));
  });
}

TEST_CASE("emulator: nvcc, block_sum") {
  with_kernel("block_sum", 256, [](Bench& b) {
    std::vector<float> x(5000);
    std::iota(x.begin(), x.end(), 1.0f);  // all partial sums are integers below 2^24
    Address dx = b.upload(x), d = b.upload(std::vector<float>(3));
    b.run({3, 1, 1}, 0, d, dx, 5000);
    auto r = b.download<float>(d, 3);
    CHECK(r[0] + r[1] + r[2] == 5000.0f * 5001 / 2);
  });
}

TEST_CASE("emulator: nvcc, warp_scan") {
  with_kernel("warp_scan", 64, [](Bench& b) {
    std::vector<int> x(64, 1);
    Address d = b.upload(x);
    b.run({1, 1, 1}, 0, d);
    auto r = b.download<int>(d, 64);
    for (int i = 0; i < 64; ++i) CHECK(r[i] == i % 32 + 1);
  });
}

TEST_CASE("emulator: nvcc, histogram") {
  with_kernel("histogram", 256, [](Bench& b) {
    std::mt19937 engine(3);
    std::vector<uint8_t> x(4000);
    std::vector<uint32_t> bins(256), expected(256);
    for (auto& v : x) ++expected[v = static_cast<uint8_t>(engine() % 100)];
    Address dx = b.upload(x), d = b.upload(bins);
    b.run({4, 1, 1}, 0, d, dx, 4000);
    CHECK(b.download<uint32_t>(d, 256) == expected);
  });
}

TEST_CASE("emulator: nvcc, transpose") {
  with_kernel("transpose", 256, [](Bench& b) {
    const int n = 64;
    std::vector<float> x(n * n), expected(n * n);
    std::iota(x.begin(), x.end(), 0.0f);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) expected[j * n + i] = x[i * n + j];
    Address dx = b.upload(x), d = b.upload(std::vector<float>(n * n));
    b.run({2, 2, 1}, 0, d, dx, n);
    CHECK(b.download<float>(d, n * n) == expected);
  });
}

TEST_CASE("emulator: nvcc, cuda::barrier hands over") {
  with_kernel("hand_over", 256, [](Bench& b) {
    Address d = b.upload(std::vector<int>(128));
    const int rounds = 6;
    b.run({1, 1, 1}, 0, d, rounds);
    auto r = b.download<int>(d, 128);
    for (int i = 0; i < 128; ++i) CHECK(r[i] == 15000 + rounds * (127 - i));
  });
}

TEST_CASE("emulator: nvcc, cuda::ptx bulk copies") {
  with_kernel("bulk_scale", 128, [](Bench& b) {
    auto x = random_floats(4096);
    Address dx = b.upload(x), d = b.upload(std::vector<float>(4096));
    b.run({4, 1, 1}, 0, d, dx, 3.0f);
    auto r = b.download<float>(d, 4096);
    for (size_t i = 0; i < 4096; ++i) CHECK(r[i] == x[i] * 3.0f);
  });
}

TEST_CASE("emulator: nvcc, cuda::ptx tensor copies") {
  with_kernel("tensor_transpose", 128, [](Bench& b) {
    std::vector<float> x(64 * 96);
    std::iota(x.begin(), x.end(), 0.0f);
    Address dx = b.upload(x), d = b.upload(std::vector<float>(64 * 96));
    TensorMap in = b.map_2d(dx, DType::f32, 64, 96, 32, 32, Swizzle::none),
              out = b.map_2d(d, DType::f32, 96, 64, 32, 32, Swizzle::none);
    b.run({3, 2, 1}, 0, in, out);
    auto r = b.download<float>(d, 64 * 96);
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 96; ++j) CHECK(r[j * 64 + i] == x[i * 96 + j]);
  });
}

TEST_CASE("emulator: nvcc, distributed shared memory") {
  with_kernel("cluster_sum", 64, [](Bench& b) {
    Address d = b.upload(std::vector<int>(8));
    b.run({8, 1, 1}, 0, d);
    CHECK(b.download<int>(d, 8) == std::vector<int>{10, 10, 10, 10, 26, 26, 26, 26});
  });
}

TEST_CASE("emulator: nvcc, cp.async") {
  with_kernel("copy_async", 128, [](Bench& b) {
    std::vector<int> x(512);
    std::iota(x.begin(), x.end(), 0);
    Address dx = b.upload(x), d = b.upload(std::vector<int>(512));
    b.run({1, 1, 1}, 0, d, dx);
    auto r = b.download<int>(d, 512);
    for (int i = 0; i < 512; ++i) CHECK(r[i] == 511 - i);
  });
}

TEST_CASE("emulator: nvcc, functions, switches and calls") {
  with_kernel("functions", 64, [](Bench& b) {
    auto x = random_floats(64);
    Address dx = b.upload(x), d = b.upload(std::vector<float>(64));
    b.run({1, 1, 1}, 0, d, dx);
    auto r = b.download<float>(d, 64);
    auto pick = [](int how, double v) {
      switch (how) {
        case 0:
          return std::sin(static_cast<double>(static_cast<float>(v) * 100.0f));
        case 1:
          return std::exp(v);
        case 2:
          return std::log(v + 2);
        case 3:
          return v / 3;
        case 4:
          return std::sqrt(v * v + 1);
        case 5:
          return std::tanh(v);
        case 6:
          return std::pow(v * v + 0.5, 1.5);
        default:
          return v / 7;
      }
    };
    for (int i = 0; i < 64; ++i) {
      double v = static_cast<double>(x[i]);
      double expected = pick(i % 8, v) + pick((i + i % 4) % 8, v) +
                        (i % 3 ? pick(i % 8, static_cast<double>(x[i] * 0.5f)) : 0);
      CHECK(r[i] == doctest::Approx(expected).epsilon(1e-5));
    }
  });
}

TEST_CASE("emulator: nvcc, the last block adds up") {
  with_kernel("last_block", 128, [](Bench& b) {
    std::vector<uint32_t> x(3000);
    std::iota(x.begin(), x.end(), 1u);
    Address dx = b.upload(x), out = b.upload(std::vector<uint64_t>(1)),
            partial = b.upload(std::vector<uint64_t>(7));
    b.run({7, 1, 1}, 0, out, dx, partial, 3000);
    CHECK(b.download<uint64_t>(out, 1)[0] == 3000ull * 3001 / 2);
  });
}

TEST_CASE("emulator: nvcc, a CTA waits for others that have not begun") {
  with_kernel("wait_for_flag", 32, [](Bench& b) {
    Address out = b.upload(std::vector<int>(1)), flag = b.upload(std::vector<int>(1));
    b.run({20, 1, 1}, 0, out, flag);
    CHECK(b.download<int>(out, 1)[0] == 42);
  });
}

TEST_CASE("emulator: nvcc, f16, bf16 and fp8") {
  with_kernel("small_floats", 64, [](Bench& b) {
    using namespace emulator;
    auto x = random_floats(65, -300, 300);
    x[3] = 1e9f, x[4] = 1e-6f, x[5] = NAN, x[6] = -0.0f, x[7] = 65519.9f, x[8] = 65520.0f, x[9] = 447.9f,
    x[10] = 464.0f, x[11] = 500.0f;
    Address dx = b.upload(x), d = b.upload(std::vector<uint32_t>(320));
    b.run({1, 1, 1}, 0, d, dx);
    auto r = b.download<uint32_t>(d, 320);
    for (int i = 0; i < 64; ++i) {
      CAPTURE(x[i]);
      uint16_t h[2] = {to_f16(x[i]), to_f16(x[i + 1])};
      const uint32_t halves = h[0] | static_cast<uint32_t>(h[1]) << 16,
                     brains = to_bf16(x[i]) | static_cast<uint32_t>(to_bf16(x[i + 1])) << 16;
      CHECK(r[5 * i] == halves);
      CHECK(r[5 * i + 1] == brains);
      for (int k = 0; k < 2; ++k) {
        // Products and sums of f16 are rounded once each.
        float v = from_f16(h[k]);
        uint16_t square = to_f16(v * v), sum = to_f16(from_f16(square) + 0.25f);
        CHECK(static_cast<uint16_t>(r[5 * i + 2] >> (16 * k)) == sum);
        uint16_t fused = static_cast<uint16_t>(
            encode(static_cast<double>(v) * static_cast<double>(v) + static_cast<double>(from_f16(sum)),
                   f16_format));
        CHECK(static_cast<uint16_t>(r[5 * i + 3] >> (16 * k)) == fused);
      }
      const uint32_t e4m3 = r[5 * i + 4] & 255, e5m2 = r[5 * i + 4] >> 8;
      CHECK(e4m3 == encode(static_cast<double>(x[i]), e4m3_format, Rounding::rn, true));
      CHECK(e5m2 == encode(static_cast<double>(x[i]), e5m2_format, Rounding::rn, true));
    }
  });
}

TEST_CASE("emulator: nvcc, lanes together") {
  with_kernel("lanes_alike", 32, [](Bench& b) {
    std::vector<uint32_t> x(32);
    std::mt19937 engine(5);
    for (auto& v : x) v = engine() % 9;
    Address dx = b.upload(x), d = b.upload(std::vector<uint32_t>(32));
    b.run({1, 1, 1}, 0, d, dx);
    auto r = b.download<uint32_t>(d, 32);
    uint32_t odd = 0, sum = 0;
    for (uint32_t i = 0; i < 32; ++i) odd |= (x[i] & 1) << i, sum += x[i];
    for (uint32_t i = 0; i < 32; ++i) {
      uint32_t same = 0, reversed = 0;
      for (uint32_t j = 0; j < 32; ++j)
        same |= static_cast<uint32_t>(x[j] == x[i]) << j, reversed |= ((x[i] >> j) & 1) << (31 - j);
      const uint32_t expected =
          (same ^ (odd * 3) ^ (sum << 7) ^ static_cast<uint32_t>(__builtin_popcount(same)) ^ reversed ^
           static_cast<uint32_t>(__builtin_clz(x[i] + 1)) ^ ((x[i] & 0xffff) | (odd << 16)));
      CHECK(r[i] == expected);
    }
  });
}

TEST_CASE("emulator: nvcc, 64-bit integers") {
  with_kernel("wide_integers", 64, [](Bench& b) {
    std::mt19937_64 engine(9);
    std::vector<int64_t> x(128);
    for (auto& v : x) v = static_cast<int64_t>(engine() >> (engine() % 40)) - (1 << 20);
    Address dx = b.upload(x), d = b.upload(std::vector<int64_t>(64));
    b.run({1, 1, 1}, 0, d, dx);
    auto r = b.download<int64_t>(d, 64);
    for (int i = 0; i < 64; ++i) {
      int64_t a = x[2 * i], c = x[2 * i + 1];
      auto u = [](auto v) { return static_cast<uint64_t>(v); };
      uint64_t expected =
          u(a / c) + u(a % c) * 3 + u(static_cast<int64_t>((static_cast<__int128>(a) * c) >> 64)) +
          u(a) / (static_cast<uint32_t>(c) | 1u) + u(static_cast<int64_t>(static_cast<double>(a) * 0.5));
      CHECK(u(r[i]) == expected);
    }
  });
}

TEST_CASE("emulator: nvcc, lanes that wait for each other go on") {
  with_kernel("lane_chain", 32, [](Bench& b) {
    Address d = b.upload(std::vector<int>(32));
    b.run_for(std::chrono::seconds(20), {1, 1, 1}, 0, d);
    auto r = b.download<int>(d, 32);
    for (int i = 0; i < 32; ++i) CHECK(r[i] == 10 * i);
  });
}

TEST_CASE("emulator: nvcc, printf and assert") {
  if (kernels().empty()) {
    test::skip("no nvcc that compiles tests/emulator/kernels.cu");
    return;
  }
  std::string printed;
  EmulatorOptions options;
  options.print = [&](const std::string& text) { printed += text; };
  Bench bench(kernels(), 32, options, "say");
  bench.run({2, 1, 1}, 0, 99);
  const std::string line = "99 bottles, hanging,  1.50, 123456789abc, x%\n";
  const std::string twice = line + line;
  CHECK(printed == twice);
  std::string what;
  CHECK(fault_of([&] { bench.run({1, 1, 1}, 0, 100); }, &what) == Fault::trap);
  CHECK(what.find("assertion 'n < 100' failed") != std::string::npos);
  CHECK(what.find("kernels.cu:") != std::string::npos);
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_cuda_test
