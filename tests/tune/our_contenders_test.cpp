// Tests the project's own contenders on a driver that launches nothing: their kernels and arguments, their
// refusals, and that a missing result is noticed.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include "kernels/tune/our_attention.h"
#include "kernels/tune/tune.h"
#include "kernels/tune/tune_report.h"
#include "tests/kit/error_kit.h"
#include "tests/kit/mock_libcuda.h"

namespace ptxbuilder::test::our_contenders_test {
using namespace bench;

namespace {

constexpr const char* kMock = PTXBUILDER_MOCK_GEMM_GPU;

struct Fixture {
  MockDriver& driver;
  const Gpu gpu{kMock};
  Fixture() : driver(state()) {
    driver = {};
    driver.reads_ptx = true;
  }

  static MockDriver& state() {
    static void* library = dlopen(kMock, RTLD_NOW);
    REQUIRE(library);
    return *reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();
  }
};

OurOptions options() {
  OurOptions o;
  o.driver_assembles = true;
  o.cache = false;
  return o;
}

AttentionProblem attention() {
  AttentionProblem p;
  p.queries = p.keys = 256, p.heads = 4, p.key_heads = 2, p.depth = p.value_depth = 64;
  return p;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "attention's contenders are the chosen tile, the named ones, and the first by prediction") {
  OurOptions o = options();
  o.tiles = {"128x64_2", "128x128_2_whole"};
  o.candidates = 2;
  const Contenders all = our_attention(gpu, o);
  REQUIRE(all.size() == 5);
  CHECK(all[0]->name() == "ptxbuilder");
  CHECK(all[0]->is_usual());
  CHECK(all[1]->name() == "128x64_2");
  CHECK_FALSE(all[1]->is_usual());
  CHECK(all[4]->name() == "candidate 2");
  AttentionProblem p = attention();
  CHECK(all[2]->refuses(p) == "");
  p.queries = p.keys = 200;
  CHECK(all[2]->refuses(p) != "");  // its keys are not whole blocks
  CHECK(all[0]->refuses(p) == "");
  CHECK(all[0]->refuses(GemmProblem()) == "it takes attention alone");
  p.depth = 300;
  CHECK(all[0]->refuses(p).starts_with("attention: Q and K have 300 columns, and V has "));

  Method method(gpu, nullptr, {.rounds = 5, .burst_milliseconds = 0.1, .warm_up_seconds = 0, .seed = 3});
  const ShapeResult r = tune(method, attention(), all);
  CHECK(driver.launches == 5);
  for (const Entry& e : r.entries) {
    CAPTURE(e.contender);
    CHECK(e.left_out == "");
    CHECK(e.wrong.find("sampled elements are wrong: O[0, 0] is") != std::string::npos);
  }
  CHECK(r.entries[1].configuration.starts_with("128x64_2, predicted "));
  const std::vector<TunedTile> tiles = tuned_tiles(r, "128x64_2", 132);
  const auto named = std::ranges::find(tiles, std::string("128x64_2"), &TunedTile::tile);
  REQUIRE(named != tiles.end());
  CHECK(named->chosen);
  CHECK(named->predicted > 0);
  CHECK(named->problem.starts_with("WRONG: "));
  CHECK(std::ranges::count(tiles, true, &TunedTile::chosen) == 1);
  CHECK(tune_table(r.problem, tiles).starts_with("b1_s256_h4/2_d64 f16\n"));
}

TEST_CASE_FIXTURE(
    Fixture, "packed sequences have their offsets and, with persistent CTAs, the order of their blocks") {
  const auto kernels = attention_kernels(gpu, options());
  const Contenders all = attention_tiles(
      gpu, kernels,
      {kernels::parse_attention_tile("128x64_2"), kernels::parse_attention_tile("128x64_3_persistent")});
  AttentionProblem p = attention();
  p.pack({100, 3, 153});
  runtime::Buffer memory(gpu.device(), size_t{1} << 20);
  BufferSet set;
  size_t at = 0;
  const auto next = [&](const Matrix& m) {
    const auto bytes = static_cast<size_t>(m.bytes());
    at += bytes;
    return memory.part(at - bytes, bytes);
  };
  for (const Matrix& input : p.inputs()) set.inputs.push_back(next(input));
  set.output = next(p.output());
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i]->refuses(p) == "");
    all[i]->prepare(p, std::span(&set, 1));
    driver.launches = 0;
    all[i]->launch(0);
    CHECK(driver.launches == static_cast<int>(i) + 1);
    if (i > 0) continue;
    const auto* begins =
        reinterpret_cast<const uint32_t*>(driver.parameters.back());  // beginnings of the keys
    CHECK(std::vector<uint32_t>(begins, begins + 4) == std::vector<uint32_t>{0, 100, 103, 256});
  }
}

TEST_CASE_FIXTURE(
    Fixture, "a kernel that cannot be compiled does not make the others fail, and each is compiled once") {
  int made = 0;
  std::mutex mutex;
  OurKernels<kernels::AttentionOperation, kernels::AttentionTile> all(
      gpu, options(), [&](const kernels::AttentionOperation& o, const kernels::AttentionTile& t) {
        {
          const std::lock_guard lock(mutex);
          ++made;
        }
        if (t.bn == 96) throw Error("no such kernel today");
        return kernels::attention(o, t);
      });
  const kernels::AttentionTile good = kernels::parse_attention_tile("128x64_2"),
                               bad = kernels::parse_attention_tile("128x96_2");
  for (int i = 0; i < 2; ++i)
    for (const kernels::AttentionTile& tile : {bad, good}) all.want({}, tile);
  CHECK_ERROR(all.get({}, bad), "no such kernel today");
  CHECK(all.get({}, good) == all.get({}, good));
  CHECK(all.load({}, good).get() != all.get({}, good).get());
  CHECK(made == 2);
}

TEST_CASE_FIXTURE(Fixture, "a product's tiles are the chosen one, the named ones, and the model's first") {
  OurOptions o = options();
  o.tiles = {"128x64x64_4"};
  const Contenders all = product_tiles(gpu, 2, o);
  REQUIRE(all.size() == 4);
  GemmProblem p;
  p.m = p.n = p.k = 256;
  Method method(gpu, nullptr, {.rounds = 5, .burst_milliseconds = 0.1, .warm_up_seconds = 0, .seed = 3});
  const ShapeResult r = tune(method, p, all);
  CHECK(driver.launches >= 4);
  for (const Entry& e : r.entries) {
    CAPTURE(e.contender);
    CHECK(e.left_out == "");
    CHECK(e.wrong.find("sampled elements are wrong: D[0, 0] is") != std::string::npos);
  }
  CHECK(r.entries[1].configuration.starts_with("128x64x64_4, predicted "));
}

}  // namespace ptxbuilder::test::our_contenders_test
