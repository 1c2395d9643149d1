// Tests random matrix products of the gemm family, through Matmul. A seed determines the operation including
// its epilogue, the tile, sizes, placement and data. Each product runs twice on poisoned memory between
// guards. It must produce the same bits, and is compared with float64.
//
//   gemm_random_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX] [--compile]
//
// --only repeats one product, whose index a failure prints. --compile assembles all kernels with ptxas, which
// must report nothing that costs speed, and runs no kernel.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "error_kit.h"
#include "matmul_draw.h"
#include "options.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::gemm_random_test {
using kernels::Activation;
using kernels::ActivationUse;
using kernels::GemmOperation;
using kernels::GemmTile;
using kernels::MatmulArguments;

namespace {

const size_t& count = test::option<size_t>("count", 50);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const int64_t& only = test::option<int64_t>("only", -1);
const bool& compile_alone = test::option("compile", false);

struct Built {
  Compiled compiled;
  std::vector<std::string> waivers;
  std::string problem;
};

// Builds the kernels of all cases, on all threads of the machine.
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
  threads.clear();  // joins the threads
  return built;
}

// Returns what is wrong with two runs, or "" if nothing is.
std::string run_twice(runtime::Device& device, kernels::Matmul& matmul, const RandomCase& c) {
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device);
  test::MatmulTrial trial(device, c.product);
  if (emulator) emulator->seed(2 * c.product.seed);
  const std::vector<std::byte> first = trial.run(matmul);
  if (std::string problem = trial.wrong(first); !problem.empty()) return problem;
  if (emulator) emulator->seed(2 * c.product.seed + 1);
  const std::vector<std::byte> second = trial.run(matmul);
  if (c.operation.add_to_rows) return trial.wrong(second);  // sums have no fixed order
  const auto differ = std::mismatch(first.begin(), first.end(), second.begin()).first - first.begin();
  return first == second ? "" : fmt::format("a second run gives different bits, from byte {} on", differ);
}

}  // namespace

TEST_CASE("random products are right, reproducible and touch nothing else") {
  std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  const bool large = !device->wants_ptx();
  const Scale scale = large ? Scale{3000, int64_t{1} << 28} : Scale{400, int64_t{1} << 24};
  std::vector<RandomCase> cases;
  std::vector<size_t> indices;
  for (size_t i = only < 0 ? 0 : static_cast<size_t>(only);
       i < (only < 0 ? count : static_cast<size_t>(only) + 1); ++i) {
    cases.push_back(test::draw_case(seed, i, scale));
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
  std::map<int, kernels::Matmul> matmuls;  // indexed by the number of multiprocessors
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

namespace {

constexpr const char* kTaken = "taken: its kernel is asked for";

// Returns a case in which `index` selects one value of each property.
test::MatmulCase combination(size_t index) {
  const auto one_of = [&](const auto& values) {
    return values.begin()[std::exchange(index, index / values.size()) % values.size()];
  };
  const std::initializer_list<bool> either = {false, true};
  test::MatmulCase c;
  c.a = c.b = one_of(std::initializer_list{DType::bf16, DType::e5m2, DType::s8});
  c.d = one_of(std::initializer_list{DType::bf16, DType::f32, DType::s32, DType::e4m3});
  c.use = one_of(std::initializer_list{ActivationUse::value, ActivationUse::slope, ActivationUse::gate});
  c.activation = one_of(std::initializer_list{Activation::none, Activation::gelu});
  c.beta = one_of(std::initializer_list{0.0F, 1.0F});
  c.size = {16, one_of(std::initializer_list<int64_t>{32, 33}), 64, 1};
  for (bool* x : {&c.bias, &c.alpha_in_memory, &c.row_scales, &c.column_scales, &c.d_scale, &c.amax})
    *x = one_of(either);
  return c;
}
constexpr size_t kCombinations = 3 * 4 * 3 * 2 * 2 * 2 * 64;

// Returns the arguments of a case, in memory that does not exist.
MatmulArguments arguments_of(const test::MatmulCase& c) {
  MatmulArguments p = arguments_without_memory(c);
  constexpr size_t kApart = 1 << 20;
  runtime::Address next = kApart;
  for (runtime::View* x : {&p.a.memory, &p.b.memory, &p.c.memory, &p.d.memory, &p.inputs.memory})
    *x = {next += kApart, kApart};
  for (runtime::View* x : {&p.bias, &p.alpha_in_memory, &p.row_scales, &p.column_scales, &p.d_scale, &p.amax})
    if (x->address != 0) *x = {next += kApart, kApart};
  p.c.type = p.inputs.type = operation_of(p).addend();
  return p;
}

// Returns the rules that a combination violates, in the words of the errors. The list is empty if the
// combination is accepted.
std::vector<std::string> broken_rules(const MatmulArguments& p) {
  std::vector<std::string> rules;
  const bool has_activation = p.activation != Activation::none;
  if (p.use != ActivationUse::value && !has_activation)
    rules.emplace_back("gemm: a slope or a gate needs an activation");
  if (p.use == ActivationUse::gate && has_activation) {
    if (p.n % 2 != 0) rules.push_back(fmt::format("a gate of n = {} columns; n must be even", p.n));
    if (p.beta != 0)
      rules.emplace_back("a gate cannot be used with beta C, which would have two columns for each of D");
  }
  if (p.d.type == DType::s32) {
    if (!is_int8(p.a.type)) rules.push_back(fmt::format("D of s32 from A of {}", name(p.a.type)));
    if (operation_of(p).has_epilogue())
      rules.emplace_back("D of s32 cannot be used with an epilogue, which computes in f32: use D of f32");
  }
  return rules;
}

}  // namespace

TEST_CASE("every combination after the sum is accepted, or refused with a rule that it violates") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device("emulator");
  kernels::MatmulOptions options;
  options.choose = [](const GemmOperation&, const kernels::GemmSize&, int) {
    return kernels::GemmTile{.bm = 64, .bn = 32, .consumers = 1};
  };
  options.load = [](const GemmOperation&, const GemmTile&) -> std::unique_ptr<runtime::LoadedKernel> {
    throw Error(kTaken);
  };
  kernels::Matmul matmul(*device, options);
  size_t taken = 0;
  for (size_t i = 0; i < kCombinations; ++i) {
    const test::MatmulCase c = combination(i);
    const MatmulArguments p = arguments_of(c);
    const std::vector<std::string> rules = broken_rules(p);
    const std::string said = error_of([&] { (void)matmul.workspace_bytes(p); });
    const auto is_said = [&](const std::string& rule) { return said.find(rule) != std::string::npos; };
    CHECK_MESSAGE((rules.empty() ? is_said(kTaken) : std::any_of(rules.begin(), rules.end(), is_said)),
                  fmt::format("{}: {}, expected {}", text(c), said, fmt::join(rules, " or ")));
    taken += rules.empty();
  }
  CHECK(taken > kCombinations / 3);
  MESSAGE(taken << " of " << kCombinations << " combinations are taken");
}

}  // namespace ptxbuilder::test::gemm_random_test
