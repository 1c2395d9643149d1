// Random matrix products of the gemm family, by Matmul: what is computed, tile, sizes, placement and data all
// follow from a seed. Each runs twice on poisoned memory between guards, gives the same bits, and is held
// against float64.
//
//   gemm_random_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX] [--compile]
//
// --only repeats one product, as the line of a failure says; --compile takes all kernels through ptxas, which
// must find nothing that costs speed, and runs none.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "kernels/gemm/kernel.h"
#include "kernels/gemm/matmul_check.h"
#include "matmul_kit.h"
#include "options.h"
#include "runtime/open_device.h"

using namespace ptxbuilder;
using kernels::GemmOperation;
using kernels::GemmTile;
using test::device_name;
using test::Lie;
using test::MatmulCase;

namespace {

const size_t& count = test::option<size_t>("count", 100);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const int64_t& only = test::option<int64_t>("only", -1);
const bool& compile_alone = test::option("compile", false);

class Draw {
 public:
  explicit Draw(uint64_t stream) : random_(stream) {}

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  // As many of each order of magnitude.
  int64_t spread(int64_t low, int64_t high) {
    const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high) + 1);
    const double x = std::uniform_real_distribution<double>(from, to)(random_);
    return std::clamp(static_cast<int64_t>(std::exp(x)), low, high);
  }
  bool chance(int one_in) { return between(1, one_in) == 1; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// How large products may be.
struct Scale {
  int64_t extent, volume;  // of m, n and k; of whole tiles, in multiplications
};

struct RandomCase {
  MatmulCase product;
  GemmOperation operation;
  GemmTile tile;
  int multiprocessors;  // 0: all; with few of them, CTAs take several tiles
};

MatmulCase draw_product(Draw& draw) {
  MatmulCase c;
  c.a = c.b = draw.of({DType::bf16, DType::bf16, DType::f16, DType::f16, DType::tf32, DType::e4m3,
                       DType::e5m2, DType::s8, DType::u8});
  const bool integer = c.a == DType::s8 || c.a == DType::u8;
  if (integer) c.b = draw.of({DType::s8, DType::u8});
  if (c.a == DType::e4m3 || c.a == DType::e5m2) c.b = draw.of({DType::e4m3, DType::e5m2});
  // f16 does not hold the sums of integers.
  c.d = integer ? draw.of({DType::s32, DType::f32, DType::bf16})
                : draw.of({DType::bf16, DType::f16, DType::f32});
  if (size_of(c.a) == 2) {
    c.a_k_major = draw.chance(2);
    c.b_k_major = draw.chance(2);
  }
  c.fast_accumulation = draw.chance(2);
  if (c.d != DType::s32 && draw.chance(2)) {
    c.alpha = draw.of({1.0F, 0.5F, -2.0F});
    c.beta = draw.of({0.0F, 1.0F, -0.75F});
    c.bias = draw.chance(2);
    c.in_place = draw.chance(2);
    c.activation = static_cast<kernels::Activation>(draw.between(0, 3));
  }
  c.size.batches = draw.chance(3) ? draw.between(2, 5) : 1;
  c.seed = draw.bits();
  return c;
}

GemmTile draw_tile(Draw& draw, const GemmOperation& operation) {
  for (;;) {
    GemmTile t;
    t.bm = draw.of({64, 64, 128, 128, 192, 256});
    t.bn = static_cast<int>(8 * (draw.chance(3) ? draw.between(1, 32) : draw.between(1, 12)));
    t.consumers = static_cast<int>(draw.between(1, 3));
    t.pingpong = draw.chance(4);
    t.swapped = draw.chance(2);
    t.bk = draw.chance(4) ? 256 / size_of(operation.a) : 0;
    t.stages = draw.chance(2) ? static_cast<int>(draw.between(1, 6)) : 0;
    if (draw.chance(3)) {
      t.cluster_m = draw.of({1, 2, 2, 4});
      t.cluster_n = draw.of({1, 1, 2, 4});
    } else if (draw.chance(3)) {
      t.split_k = static_cast<int>(draw.between(2, 8));
    } else if (draw.chance(2)) {
      t.split_last = static_cast<int>(draw.chance(3) ? draw.between(2, 12) : draw.between(2, 4));
      if (draw.chance(2)) t.cluster_m = draw.of({1, 2, 2, 4}), t.cluster_n = draw.of({1, 2, 2});
    }
    t.raster = {draw.of({16, 16, 1, 3, 8}), draw.chance(3), draw.chance(3)};
    t.ctas_per_sm = draw.chance(6) ? 2 : 1;
    t.inside = draw.chance(2);
    try {
      return checked(operation, t);
    } catch (const Error&) {
    }
  }
}

Lie draw_lie(Draw& draw, DType type) {
  const int64_t step = draw.chance(3) ? 1 : 16 / size_of(type);
  Lie lie;
  if (draw.chance(2)) lie.offset = step * draw.between(0, 5);
  if (draw.chance(2)) lie.gap = step * draw.between(0, 5);
  if (draw.chance(2)) lie.batch_gap = step * draw.between(0, 5);
  return lie;
}

// Multiplications of all tiles, which a device computes whole.
int64_t volume(const RandomCase& c) {
  auto whole = [](int64_t extent, int64_t tile) { return (extent + tile - 1) / tile * tile; };
  const auto& [m, n, k, batches] = c.product.size;
  return whole(c.tile.swapped ? n : m, c.tile.bm * c.tile.cluster_m) *
         whole(c.tile.swapped ? m : n, c.tile.bn * c.tile.cluster_n) * whole(k, c.tile.bk) * batches;
}

RandomCase draw_case(size_t index, const Scale& scale) {
  Draw draw(seed * 0x9e3779b97f4a7c15 + index);
  RandomCase c;
  c.product = draw_product(draw);
  kernels::MatmulArguments p;
  p.k = 1, p.batches = c.product.size.batches;
  p.a.type = c.product.a, p.b.type = c.product.b, p.d.type = c.product.d;
  p.a_k_major = c.product.a_k_major, p.b_k_major = c.product.b_k_major;
  p.alpha = c.product.alpha, p.beta = c.product.beta;
  if (c.product.bias) p.bias.address = 256;
  p.activation = c.product.activation;
  p.fast_accumulation = c.product.fast_accumulation;
  c.operation = operation_of(p);
  int64_t extent = scale.extent;
  do {
    c.tile = draw_tile(draw, c.operation);
    // Rows without padding take a tensor map as they lie where they are multiples of 16 bytes.
    auto size = [&] {
      const int64_t step = draw.chance(3) ? 1 : 16 / size_of(c.product.a);
      const int64_t any = draw.chance(2) ? draw.between(1, extent) : draw.spread(1, extent);
      return std::max<int64_t>(any / step * step, 1);
    };
    c.product.size.m = size();
    c.product.size.n = size();
    c.product.size.k = size();
    extent = std::max<int64_t>(extent - 1, 8);
  } while (volume(c) > scale.volume);
  c.product.a_lie = draw_lie(draw, c.product.a);
  c.product.b_lie = draw_lie(draw, c.product.b);
  c.product.c_lie = draw_lie(draw, c.product.d);
  c.product.d_lie = draw_lie(draw, c.product.d);
  c.multiprocessors = draw.of({0, 1, 2, 5});
  return c;
}

struct Built {
  Compiled compiled;
  std::vector<std::string> waivers;
  std::string problem;
};

// On as many threads as the machine has.
std::vector<Built> build(const std::vector<RandomCase>& cases, const Compiler& compiler) {
  std::vector<Built> built(cases.size());
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < cases.size();) try {
          Kernel kernel = gemm(cases[i].operation, cases[i].tile);
          if (!compile_alone) kernels::waive_lack_of_registers(kernel);
          built[i].waivers = kernel.builder().waivers();
          built[i].compiled = compiler.compile(std::move(kernel));
        } catch (const std::exception& e) {
          built[i].problem = e.what();
        }
    });
  threads.clear();  // joins
  return built;
}

// What is wrong with two runs; "" when nothing is.
std::string run_twice(runtime::Device& device, kernels::Matmul& matmul, const RandomCase& c) {
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device);
  test::MatmulTrial trial(device, c.product);
  if (emulator) emulator->seed(2 * c.product.seed);
  const std::vector<std::byte> first = trial.run(matmul);
  if (std::string problem = trial.wrong(first); !problem.empty()) return problem;
  if (emulator) emulator->seed(2 * c.product.seed + 1);
  const std::vector<std::byte> second = trial.run(matmul);
  const auto differ = std::mismatch(first.begin(), first.end(), second.begin()).first - first.begin();
  return first == second ? "" : fmt::format("a second run gives other bits, from byte {} on", differ);
}

}  // namespace

TEST_CASE("random products are right, repeat their bits and touch nothing else") {
  std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  const bool large = !device->wants_ptx();
  const Scale scale = large ? Scale{3000, int64_t{1} << 28} : Scale{400, int64_t{1} << 24};
  std::vector<RandomCase> cases;
  std::vector<size_t> indices;
  for (size_t i = only < 0 ? 0 : static_cast<size_t>(only);
       i < (only < 0 ? count : static_cast<size_t>(only) + 1); ++i) {
    cases.push_back(draw_case(i, scale));
    indices.push_back(i);
  }
  LoadOptions tools;
  tools.cache = false;
  const Compiler compiler =
      compile_alone ? Compiler(CompilerOptions{.cache = false}) : compiler_for(*device, tools);
  const std::vector<Built> built = build(cases, compiler);

  const RandomCase* now = nullptr;
  const Built* image = nullptr;
  kernels::MatmulOptions options;
  options.compiler = tools;
  options.choose = [&](const GemmOperation&, const kernels::GemmSize&, int) { return now->tile; };
  options.load = [&](const GemmOperation& operation, const GemmTile&) {
    if (!(operation == now->operation)) throw Error("the test expected another operation");
    return std::make_unique<runtime::LoadedKernel>(load(*device, image->compiled, image->waivers));
  };
  std::map<int, kernels::Matmul> matmuls;  // by multiprocessors
  for (int multiprocessors : {0, 1, 2, 5}) {
    options.multiprocessors = multiprocessors;
    matmuls.emplace(multiprocessors, kernels::Matmul(*device, options));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    now = &cases[i];
    image = &built[i];
    std::string problem = built[i].problem;
    if (problem.empty() && !compile_alone) try {
        problem = run_twice(*device, matmuls.at(cases[i].multiprocessors), cases[i]);
      } catch (const runtime::TimeoutError& e) {
        FAIL(fmt::format("--seed={} --only={}: {}; tile {} on {} SMs hangs: {}", seed, indices[i],
                         text(cases[i].product), text(cases[i].tile), cases[i].multiprocessors, e.what()));
      } catch (const Error& e) {
        problem = e.what();
      }
    CHECK_MESSAGE(problem.empty(),
                  fmt::format("gemm_random_test --device={} --seed={} --only={}: {}; tile {} on {} SMs: {}",
                              device_name, seed, indices[i], text(cases[i].product), text(cases[i].tile),
                              cases[i].multiprocessors, problem));
  }
  MESSAGE(cases.size() << " kernels on " << device->properties().name);
}
