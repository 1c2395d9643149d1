// gemm: the matrix product of every type, storage, epilogue and tile, one kernel for each choice.
#include <fmt/format.h>

#include "kernels/command/family.h"
#include "kernels/gemm/choice.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm_reference.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

const std::vector<std::string> kInputs = {"bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"};
const std::vector<std::string> kOutputs = {"bf16", "f16", "f32", "s32"};
const std::vector<std::string> kActivations = {"none", "relu", "gelu", "silu"};
const std::vector<std::string> kSwitch = {"no", "yes"};

GemmOperation operation(const command::Fields& f) {
  GemmOperation o;
  o.a = *dtype_from_name(f.word("a"));
  o.b = f.word("b") == "as a" ? o.a : *dtype_from_name(f.word("b"));
  o.d = *dtype_from_name(f.word("d"));
  o.a_k_major = f.word("a_major") == "k";
  o.b_k_major = f.word("b_major") == "k";
  o.fast_accumulation = f["promote"] == 0;
  o.alpha = f["alpha"] != 0;
  o.beta = f["beta"] != 0;
  o.bias = f["bias"] != 0;
  o.activation = static_cast<Activation>(f["activation"]);
  o.batched = f["batches"] > 1;
  return o;
}

GemmTile tile(const command::Fields& f) {
  GemmTile t;
  t.bm = f.small("bm");
  t.bn = f.small("bn");
  t.bk = f.small("bk");
  t.stages = f.small("stages");
  t.consumers = f.small("consumers");
  t.pingpong = f["pingpong"] != 0;
  t.swapped = f["swapped"] != 0;
  t.cluster_m = f.small("cluster_m");
  t.cluster_n = f.small("cluster_n");
  t.split_k = f.small("split_k");
  t.split_last = f.small("split_last");
  t.raster = {f.small("group"), f.word("raster") == "columns", f["snake"] != 0};
  t.ctas_per_sm = f.small("ctas_per_sm");
  t.inside = f["inside"] != 0;
  t.overlaps = f["overlaps"] != 0;
  return t;
}

// The fields of a tile whose bk and stages are chosen.
void set_tile(command::Fields& f, const GemmTile& t) {
  f.set("bm", t.bm);
  f.set("bn", t.bn);
  f.set("bk", t.bk);
  f.set("stages", t.stages);
  f.set("consumers", t.consumers);
  f.set("pingpong", t.pingpong);
  f.set("swapped", t.swapped);
  f.set("cluster_m", t.cluster_m);
  f.set("cluster_n", t.cluster_n);
  f.set("split_k", t.split_k);
  f.set("split_last", t.split_last);
  f.set("group", t.raster.group);
  f.set("raster", t.raster.columns);
  f.set("snake", t.raster.snake);
  f.set("ctas_per_sm", t.ctas_per_sm);
  f.set("inside", t.inside);
  f.set("overlaps", t.overlaps);
}

// The tile of a size, but none with split_last, whose kernel has a parameter that the others lack.
void choose_tile(command::Fields& f) {
  const GemmOperation o = operation(f);
  const GemmSize size = {f["m"], f["n"], f["k"], f["batches"]};
  GemmTile chosen = choose(o, size, hopper::multiprocessors);
  if (chosen.split_last > 1) {
    const std::vector<Candidate> all = candidates(o, size, hopper::multiprocessors);
    chosen =
        std::find_if(all.begin(), all.end(), [](const Candidate& c) { return c.tile.split_last == 1; })->tile;
  }
  set_tile(f, checked(o, chosen));
}

// Names the matrices whose rows no tensor map takes where they lie without gaps.
std::string rows_that_need_gaps(const command::Fields& f) {
  const GemmOperation o = operation(f);
  std::string text;
  auto add = [&](const char* matrix, const char* row, DType type) {
    if (const int64_t bytes = f[row] * size_of(type); bytes % hopper::bulk_unit != 0)
      text += fmt::format("{}{} of {} B in {}", text.empty() ? "" : ", ", row, bytes, matrix);
  };
  add("A", o.a_k_major ? "k" : "m", o.a);
  add("B", o.b_k_major ? "k" : "n", o.b);
  add("D", "n", o.d);
  if (text.empty()) return "";
  return fmt::format("rows ({}) are no multiples of {} B: a launch needs gaps behind them, by stride_bytes",
                     text, hopper::bulk_unit);
}

Kernel build(const command::Fields& f) {
  Kernel k = gemm(operation(f), tile(f));
  if (f["sms"] == 0) return k;
  const GemmGridRule grid =
      gemm_grid_rule(checked(operation(f), tile(f)), operation(f).batched, f.word("sms"));
  k.grid(grid.x, grid.y);
  return k;
}

constexpr double kAlpha = 0.75, kBeta = -1.5;

void run(const command::Fields& f, command::Run& run) {
  const GemmOperation o = operation(f);
  size_t m = static_cast<size_t>(f["m"]), n = static_cast<size_t>(f["n"]), k = static_cast<size_t>(f["k"]);
  size_t batches = static_cast<size_t>(f["batches"]);
  auto shape = [&](size_t inner, size_t outer) {
    std::vector<uint64_t> extents = {inner, outer};
    if (o.batched) extents.push_back(batches);
    return extents;
  };
  command::Tensor a = run.normal(o.a, o.a_k_major ? shape(k, m) : shape(m, k));
  command::Tensor b = run.normal(o.b, o.b_k_major ? shape(k, n) : shape(n, k));
  command::Tensor c = run.normal(o.d == DType::s32 ? DType::f32 : o.d, shape(n, m));
  command::Tensor bias = run.normal(o.d == DType::s32 ? DType::f32 : o.d, {n});
  command::Tensor d = run.output(o.d, shape(n, m));

  auto u32_of = [](size_t v) { return runtime::scalar(static_cast<uint32_t>(v)); };
  std::vector<runtime::Argument> arguments = {a.tensor(), b.tensor(), d.tensor(),
                                              u32_of(m),  u32_of(n),  u32_of(k)};
  if (o.alpha) arguments.push_back(runtime::scalar(static_cast<float>(kAlpha)));
  if (o.beta) {
    arguments.push_back(runtime::scalar(static_cast<float>(kBeta)));
    arguments.push_back(c.pointer());
    arguments.push_back(u32_of(n));
  }
  if (o.bias) arguments.push_back(bias.pointer());
  if (o.batched) arguments.push_back(u32_of(batches));
  const GemmTile chosen = checked(o, tile(f));
  const int most = f["sms"] ? f.small("sms") : kMostSplitCtas;
  const GemmGrid grid = gemm_grid(chosen, f["m"], f["n"], f["batches"], most);
  std::optional<command::Tensor> workspace;
  if (const size_t bytes = gemm_workspace_bytes(chosen, grid)) {
    workspace.emplace(run.output(DType::f32, {bytes / 4}));
    workspace->poison();
    arguments.push_back(workspace->pointer());
  }
  run.launch(arguments);

  run.check(d, static_cast<double>(k), [&](size_t i) {
    const size_t batch = i / (m * n), row = i / n % m, col = i % n;
    DotProduct p = {k, o.a_k_major ? k : 1, o.a_k_major ? 1 : m, o.b_k_major ? k : 1, o.b_k_major ? 1 : n};
    p.a_start = batch * m * k;
    p.b_start = batch * n * k;
    const double added = (o.beta ? kBeta * c[i] : 0) + (o.bias ? bias[col] : 0);
    return finished(o, dot_product(a, b, row, col, p), o.alpha ? kAlpha : 1, added);
  });
  double dm = static_cast<double>(m), dn = static_cast<double>(n), dk = static_cast<double>(k);
  double db = static_cast<double>(batches);
  run.measure(2 * dm * dn * dk * db, ((dm * dk + dn * dk) * size_of(o.a) + dm * dn * size_of(o.d)) * db);
}

const command::Registration registration({
    .name = "gemm",
    .summary = "matrix product of every type, storage, epilogue and tile",
    .fields = {{"m", 512, "rows of D"},
               {"n", 512, "columns of D"},
               {"k", 512, "depth of the product"},
               {"batches", 1, "products, one behind the other"},
               {"a", 0, "type of A", 1, 1, kInputs},
               {"b", 0, "type of B", 1, 1, {"as a", "bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"}},
               {"d", 0, "type of D", 1, 1, kOutputs},
               {"a_major", 0, "along what A is contiguous", 1, 1, {"k", "m"}},
               {"b_major", 0, "along what B is contiguous", 1, 1, {"k", "n"}},
               {"promote", 0, "sums of 8-bit floats to f32 every 128 of k", 1, 1, kSwitch},
               {"alpha", 0, "a factor of the product", 1, 1, kSwitch},
               {"beta", 0, "add a factor of C", 1, 1, kSwitch},
               {"bias", 0, "add a value to each column", 1, 1, kSwitch},
               {"activation", 0, "of the result", 1, 1, kActivations},
               {"bm", 128, "rows of a tile", 64},
               {"bn", 256, "columns of a tile", 8},
               {"bk", 0, "depth of a stage; 0 for 128 bytes", 1, 0},
               {"stages", 0, "of the ring; 0 for as many as fit", 1, 0},
               {"consumers", 2, "warpgroups that multiply"},
               {"pingpong", 0, "two consumers take tiles in turn", 1, 1, kSwitch},
               {"swapped", 0, "rows of a tile lie along n", 1, 1, kSwitch},
               {"cluster_m", 1, "CTAs of a cluster along rows"},
               {"cluster_n", 1, "CTAs of a cluster along columns"},
               {"split_k", 1, "CTAs that divide k"},
               {"split_last", 1, "CTAs that divide k of a tile of the last wave, at most"},
               {"group", 16, "rows or columns of tiles that are computed together"},
               {"raster", 0, "of what a group is made", 1, 1, {"rows", "columns"}},
               {"snake", 0, "every second group goes back", 1, 1, kSwitch},
               {"ctas_per_sm", 1, "CTAs that an SM holds"},
               {"inside", 0, "no tile hangs over the output", 1, 1, kSwitch},
               {"overlaps", 1, "may begin before the launch ahead of it has ended", 1, 1, kSwitch},
               {"sms", 0, "multiprocessors that the grid is for; 0 for the device's", 1, 0}},
    .build = build,
    .run = run,
    .choice = {.axes = {{"m", "M"}, {"n", "N"}, {"k", "K"}},
               .choose = choose_tile,
               .caution = rows_that_need_gaps},
});

}  // namespace
}  // namespace ptxbuilder::kernels
