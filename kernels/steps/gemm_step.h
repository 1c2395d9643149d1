// Contains the code that the matrix products from gemm_multistage to gemm_persistent share, such as their
// fields, the layout of B, and the launch.
#pragma once

#include "kernels/family/family.h"
#include "kernels/steps/gemm_run.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/block_spec.h"

namespace ptxbuilder::kernels {

// A product D[m,n] = sum_k A[m,k] B[n,k], added up in f32 and rounded once. A is stored as m rows of k, and D
// as m rows of n. B is stored as n rows of k, or as k rows of n, which wgmma reads transposed.
struct GemmConfig {
  DType input = DType::bf16, output = DType::bf16;
  bool b_k_major = true;
  int bm = 128, bn = 256, bk = 64;  // rows and columns of a CTA's tile; depth of a stage
  int stages = 4;

  TileShape a_tile() const { return {bm, bk}; }
  TileShape b_tile() const { return b_k_major ? TileShape{bn, bk} : TileShape{bk, bn}; }
  // Loads the box of B that begins at element `k` along k and element `n` along n.
  void load_b(const LoadView& to, TensorMap B, u32 k, u32 n, Where where = Where::here()) const {
    tma_load({to, where}, B, b_k_major ? k : n, b_k_major ? n : k);
  }
  // Returns the index of a block of B; `k` and `n` are in blocks.
  BlockIndex b_block(u32 k, u32 n) const { return b_k_major ? BlockIndex{n, k} : BlockIndex{k, n}; }
  // Returns a stage of B as an operand of mma().
  TileView b_operand(const TileView& stage) const { return b_k_major ? stage : stage.transposed(); }
};

// Rounds `x` to the type of the tile in shared memory, and stores it there.
inline void store_rounded(const TileView& to, const RegisterTile<f32>& x, Where where = Where::here()) {
  if (to.tile().dtype() == DType::bf16) return store(to, astype<bf16>(x, where), where);
  if (to.tile().dtype() == DType::f16) return store(to, astype<f16>(x, where), where);
  store(to, x, where);
}

inline const std::vector<std::string> kStepInputs = {"bf16", "f16"}, kStepOutputs = {"bf16", "f16", "f32"},
                                      kStepMajors = {"k", "n"};

// Sets the fields for the types and the layout. Throws an Error that lists the accepted values if a field has
// another value.
inline void set_types(command::Fields& f, DType input, DType output, bool b_k_major) {
  auto set = [&](const char* field, const std::vector<std::string>& words, DType type) {
    const auto at = std::find(words.begin(), words.end(), name(type));
    if (at == words.end())
      throw Error("it takes bf16 and f16, and yields bf16, f16 and f32; not " + std::string(name(type)));
    f.set(field, at - words.begin());
  };
  set("a", kStepInputs, input);
  set("d", kStepOutputs, output);
  f.set("b_major", b_k_major ? 0 : 1);
}

// Returns the fields of a step, which are the size, the types, the layout, and `own`.
inline std::vector<command::Field> step_fields(const GemmConfig& types, std::vector<command::Field> own) {
  std::vector<command::Field> all = {
      {"m", 1024, "rows of A and D", 8}, {"n", 1024, "columns of D", 8}, {"k", 1024, "columns of A", 8}};
  all.insert(all.end(), own.begin(), own.end());
  all.push_back({"a", 0, "type of A and B", 1, 1, kStepInputs});
  all.push_back({"d", 0, "type of D", 1, 1, kStepOutputs});
  all.push_back({"b_major", 0, "the dimension along which B is contiguous", 1, 1, kStepMajors});
  command::Fields fields(std::move(all));
  set_types(fields, types.input, types.output, types.b_k_major);
  return fields.all();
}

inline GemmConfig gemm_config(const command::Fields& f) {
  return {*dtype_from_name(f.word("a")),
          *dtype_from_name(f.word("d")),
          f.word("b_major") == "k",
          f.small("bm"),
          f.small("bn"),
          f.small("bk"),
          f.small("stages")};
}

// Returns the kernel of a step, with its grid and the descriptions of its parameters set. There is one CTA
// for each tile or, if the step has a field "ctas", as many CTAs as the field specifies, each of which
// processes several tiles.
inline Kernel step(Kernel k, const command::Fields& f) {
  k.describe({{"A", "m rows of k"},
              {"B", f.word("b_major") == "k" ? "n rows of k" : "k rows of n"},
              {"D", "A B^T: m rows of n"},
              {"K", "depth of the product"}});
  if (!f.has("ctas")) {
    k.grid(ctas_along("extent(D, 0)", f["bn"]), ctas_along("extent(D, 1)", f["bm"]));
    return k;
  }
  k.describe({{"M", "rows of D"}, {"N", "columns of D"}});
  const int64_t x = f.has("cluster_m") ? f["cluster_m"] : 1, y = f.has("cluster_n") ? f["cluster_n"] : 1;
  k.grid(std::to_string(f["ctas"] / (x * y) * x), std::to_string(y));
  return k;
}

// Returns the arguments of a launch, which are A, B and D, followed by K or, if CTAs process several tiles,
// by M, N and K.
inline std::vector<runtime::Argument> step_arguments(const command::Fields& f, const runtime::Argument& a,
                                                     const runtime::Argument& b, const runtime::Argument& d) {
  auto size = [&](const char* name) { return runtime::scalar(static_cast<uint32_t>(f[name])); };
  if (!f.has("ctas")) return {a, b, d, size("k")};
  return {a, b, d, size("m"), size("n"), size("k")};
}

inline void run_step(const command::Fields& f, command::Run& run) {
  auto size = [&](const char* name) { return static_cast<size_t>(f[name]); };
  const GemmConfig c = gemm_config(f);
  run_product(run, {size("m"), size("n"), size("k"), c.input, c.output, c.b_k_major},
              [&](const auto& a, const auto& b, const auto& d) {
                run.launch(step_arguments(f, a.tensor(), b.tensor(), d.tensor()));
              });
}

}  // namespace ptxbuilder::kernels
