// Rows that differ along axes only, made by loops over the axes.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa {
namespace {

class Table {
 public:
  Table() {
    for (const Row& row : {
#define PTX_ROW(name, ...) rows_def::name,
#define PTX_INTRINSIC(name, ...) rows_def::name,
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC
         })
      rows_.push_back(row);
    add_wgmma();
    add_tensor_copies();
    add_matrix_moves();
    add_conversions();
    for (const Row& row : rows_) by_name_.emplace(row.name, &row);
  }

  std::span<const Row> rows() const { return rows_; }

  const Row* find(std::string_view name) const {
    auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }

 private:
  void add(std::string name, std::string syntax, Effect effect, int ptx_version, Sm sm) {
    rows_.push_back(Row{keep(std::move(name)), keep(std::move(syntax)), effect, ptx_version, sm});
  }

  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  void add_wgmma();
  void add_tensor_copies();
  void add_matrix_moves();
  void add_conversions();

  std::deque<std::string> texts_;
  std::vector<Row> rows_;
  std::unordered_map<std::string_view, const Row*> by_name_;
};

const Table& table() {
  static const Table t;
  return t;
}

std::string wgmma_name(DType d, DType ab, int n, bool a_in_registers) {
  return fmt::format("wgmma_mma_async_m64n{}k16_{}_{}_{}_{}", n, name(d), name(ab), name(ab),
                     a_in_registers ? "rs" : "ss");
}

void Table::add_wgmma() {
  struct Types {
    DType d, ab;
  };
  for (auto [d, ab] :
       {Types{DType::f32, DType::f16}, Types{DType::f32, DType::bf16}, Types{DType::f16, DType::f16}})
    for (bool a_in_registers : {false, true})
      for (int n = 8; n <= 256; n += 8) {
        // A thread holds 64 n / 128 elements of D; f16 elements lie two to a register.
        std::string list = d == DType::f32 ? fmt::format("f32x{}", n / 2) : fmt::format("b32x{}", n / 4);
        add(wgmma_name(d, ab, n, a_in_registers),
            fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.{}.{}.{} {{d:+{}}}, {{a:{}}}, {{b:b64}}, "
                        "{{scale_d:pred}}, "
                        "{{scale_a:imm<-1..1/2>}}, {{scale_b:imm<-1..1/2>}}{}, {{trans_b:imm<0..1>}};",
                        n, name(d), name(ab), name(ab), list, a_in_registers ? "b32x4" : "b64",
                        a_in_registers ? "" : ", {trans_a:imm<0..1>}"),
            Effect::memory, 80, Sm::sm_90a);
      }
}

std::string tensor_load_name(TensorLoadForm form) {
  return fmt::format("cp_async_bulk_tensor_{}d_load{}{}", form.rank, form.multicast ? "_multicast" : "",
                     form.cache_hint ? "_cache_hint" : "");
}

std::string tensor_store_name(int rank) { return fmt::format("cp_async_bulk_tensor_{}d_store", rank); }

void Table::add_tensor_copies() {
  for (int rank = 1; rank <= 5; ++rank) {
    std::string coordinates;
    for (int i = 0; i < rank; ++i) coordinates += fmt::format("{}{{c{}:s32}}", i ? ", " : "", i);
    std::string tensor = fmt::format("[{{map:tmap}}, {{{{{}}}}}]", coordinates);
    for (bool multicast : {false, true})
      for (bool cache_hint : {false, true})
        add(tensor_load_name({rank, multicast, cache_hint}),
            fmt::format("cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes{}{} "
                        "[{{dst:smem}}], "
                        "{}, [{{bar:smem}}]{}{};",
                        rank, multicast ? ".multicast::cluster" : "", cache_hint ? ".L2::cache_hint" : "",
                        tensor, multicast ? ", {cta_mask:b16}" : "", cache_hint ? ", {policy:b64}" : ""),
            Effect::memory, 80, Sm::sm_90);
    add(tensor_store_name(rank),
        fmt::format("cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group {}, [{{src:smem}}];", rank,
                    tensor),
        Effect::memory, 80, Sm::sm_90);
  }
}

std::string matrix_move_name(std::string_view verb, int matrices, bool transposed) {
  return fmt::format("{}_x{}{}", verb, matrices, transposed ? "_trans" : "");
}

void Table::add_matrix_moves() {
  for (int matrices : {1, 2, 4})
    for (bool transposed : {false, true}) {
      std::string_view trans = transposed ? ".trans" : "";
      add(matrix_move_name("ldmatrix", matrices, transposed),
          fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared::cta.b16 {{d:=b32x{}}}, [{{address:smem}}];",
                      matrices, trans, matrices),
          Effect::memory, 78, Sm::sm_75);
      add(matrix_move_name("stmatrix", matrices, transposed),
          fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared::cta.b16 [{{address:smem}}], {{s:b32x{}}};",
                      matrices, trans, matrices),
          Effect::memory, 78, Sm::sm_90);
    }
}

std::string cvt_pack_name(DType to) { return fmt::format("cvt_rn_{}x2_f32", name(to)); }

void Table::add_conversions() {
  for (DType to : {DType::f16, DType::bf16})
    add(cvt_pack_name(to), fmt::format("cvt.rn.{}x2.f32 {{d:=b32}}, {{high:f32}}, {{low:f32}};", name(to)),
        Effect::pure, 70, Sm::sm_80);
}

const Row& require(const std::string& name, Where where, std::string_view operation, std::string_view rule) {
  if (const Row* row = find(name)) return *row;
  throw Error(where, fmt::format("{}: {}; there is no {}", operation, rule, name));
}

}  // namespace

std::span<const Row> rows() { return table().rows(); }

const Row* find(std::string_view name) { return table().find(name); }

const Row& wgmma_mma_async(DType d, DType ab, int n, bool a_in_registers, Where where) {
  return require(
      wgmma_name(d, ab, n, a_in_registers), where, "wgmma",
      fmt::format(
          "n = {} must be a multiple of 8 from 8 to 256, and types f16 or bf16 into f32, or f16 into f16",
          n));
}

const Row& cp_async_bulk_tensor_load(TensorLoadForm form, Where where) {
  return require(tensor_load_name(form), where, "cp.async.bulk.tensor", "a tensor map has rank 1 to 5");
}

const Row& cp_async_bulk_tensor_store(int rank, Where where) {
  return require(tensor_store_name(rank), where, "cp.async.bulk.tensor", "a tensor map has rank 1 to 5");
}

const Row& ldmatrix(int matrices, bool transposed, Where where) {
  return require(matrix_move_name("ldmatrix", matrices, transposed), where, "ldmatrix",
                 "it moves 1, 2 or 4 matrices");
}

const Row& stmatrix(int matrices, bool transposed, Where where) {
  return require(matrix_move_name("stmatrix", matrices, transposed), where, "stmatrix",
                 "it moves 1, 2 or 4 matrices");
}

const Row& cvt_pack(DType to, Where where) {
  return require(cvt_pack_name(to), where, "cvt", "two f32 pack into f16 or bf16");
}

}  // namespace ptxbuilder::isa
