// Rows that differ along axes only, made by loops over the axes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa {
namespace {

class Table {
 public:
  Table() {
    rows_.reserve(1536);  // a row is large: no copies while they grow in number
    for (const Row& row : {
#define PTX_ROW(name, ...) rows_def::name,
#define PTX_INTRINSIC(name, ...) rows_def::name,
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC
         })
      rows_.push_back(row);
    add_wgmma();
    add_mma();
    add_tensor_copies();
    add_bulk_reductions();
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
  void add_mma();
  void add_tensor_copies();
  void add_bulk_reductions();
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

// Registers of a D fragment with `elements` a thread: f16 lies two to a register.
std::string accumulators(DType d, int elements) {
  if (d == DType::f16) return fmt::format("b32x{}", elements / 2);
  return fmt::format("{}x{}", name(d), elements);
}

struct Types {
  DType d, a, b;
};

constexpr std::array kFp8 = {DType::e4m3, DType::e5m2};
constexpr std::array kInt8 = {DType::s8, DType::u8};

// What the tensor cores multiply, for wgmma and mma.sync alike.
std::vector<Types> tensor_core_types() {
  std::vector<Types> all = {{DType::f16, DType::f16, DType::f16},
                            {DType::f32, DType::f16, DType::f16},
                            {DType::f32, DType::bf16, DType::bf16},
                            {DType::f32, DType::tf32, DType::tf32}};
  for (DType d : {DType::f16, DType::f32})
    for (DType a : kFp8)
      for (DType b : kFp8) all.push_back({d, a, b});
  for (DType a : kInt8)
    for (DType b : kInt8) all.push_back({DType::s32, a, b});
  return all;
}

constexpr std::string_view kTypeRule =
    "types may be f16, bf16, tf32 (A and B alike), e4m3 or e5m2 (also mixed) into f32; f16, e4m3 or e5m2 "
    "into "
    "f16; s8 or u8 (also mixed) into s32";

bool has_types(const Types& t) {
  auto all = tensor_core_types();
  return std::any_of(all.begin(), all.end(),
                     [&](const Types& o) { return o.d == t.d && o.a == t.a && o.b == t.b; });
}

// s8, u8 and b1 have fewer widths than the floating types.
bool is_integer_width(int n) { return n == 8 || n == 24 || n % 16 == 0; }

std::string wgmma_name(const WgmmaForm& f) {
  return fmt::format("wgmma_mma_async_m64n{}k{}_{}_{}_{}{}_{}", f.n, wgmma_depth(f.a), name(f.d), name(f.a),
                     name(f.b), f.satfinite ? "_satfinite" : "", f.a_in_registers ? "rs" : "ss");
}

std::string wgmma_bits_name(int n, bool a_in_registers) {
  return fmt::format("wgmma_mma_async_m64n{}k256_s32_b1_b1_and_popc_{}", n, a_in_registers ? "rs" : "ss");
}

// `shape_and_types` as "m64n8k16.f32.bf16.bf16".
std::string wgmma_syntax(std::string_view shape_and_types, std::string_view d, bool a_in_registers,
                         std::string_view modifiers) {
  return fmt::format("wgmma.mma_async.sync.aligned.{} {{d:+{}}}, {{a:{}}}, {{b:b64}}, {{scale_d:pred}}{};",
                     shape_and_types, d, a_in_registers ? "b32x4" : "b64", modifiers);
}

void Table::add_wgmma() {
  for (const Types& t : tensor_core_types())
    for (bool satfinite : {false, true})
      for (bool a_in_registers : {false, true})
        for (int n = 8; n <= 256; n += 8) {
          bool integer = t.d == DType::s32;
          if (integer ? !is_integer_width(n) : satfinite) continue;
          std::string modifiers = integer ? "" : ", {scale_a:imm<-1..1/2>}, {scale_b:imm<-1..1/2>}";
          if (size_of(t.a) == 2) modifiers += a_in_registers ? "" : ", {trans_a:imm<0..1>}";
          if (size_of(t.a) == 2) modifiers += ", {trans_b:imm<0..1>}";
          std::string types = fmt::format("m64n{}k{}.{}.{}.{}{}", n, wgmma_depth(t.a), name(t.d), name(t.a),
                                          name(t.b), satfinite ? ".satfinite" : "");
          add(wgmma_name({t.d, t.a, t.b, n, a_in_registers, satfinite}),
              wgmma_syntax(types, accumulators(t.d, n / 2), a_in_registers, modifiers), Effect::memory,
              integer && t.a != t.b ? 84 : 80, Sm::sm_90a);
        }
  for (bool a_in_registers : {false, true})
    for (int n = 8; n <= 256; n += 8)
      if (is_integer_width(n))
        add(wgmma_bits_name(n, a_in_registers),
            wgmma_syntax(fmt::format("m64n{}k256.s32.b1.b1.and.popc", n), accumulators(DType::s32, n / 2),
                         a_in_registers, ""),
            Effect::memory, 80, Sm::sm_90a);
}

std::string mma_name(const MmaForm& f) {
  return fmt::format("mma_sync_m16n8k{}_{}_{}_{}{}", f.k, name(f.d), name(f.a), name(f.b),
                     f.satfinite ? "_satfinite" : "");
}

// A and B fill 8 (k of 16 bytes) or 16 bytes of a thread's registers a row, so two depths for each type.
void Table::add_mma() {
  for (const Types& t : tensor_core_types())
    for (int halves : {1, 2})
      for (bool satfinite : {false, true}) {
        bool fp8 = is_fp8(t.a), integer = t.d == DType::s32;
        if (satfinite && !integer) continue;
        int k = halves * 16 / size_of(t.a);
        std::string_view d = name(t.d);
        std::string c = accumulators(t.d, 4);
        int version = fp8 ? (t.d == DType::f32 && halves == 2 ? 84 : 87) : 70;
        Sm sm = fp8 ? Sm::sm_89 : Sm::sm_80;
        if (t.a == DType::f16 && halves == 1) version = 65, sm = Sm::sm_75;
        add(mma_name({t.d, t.a, t.b, k, satfinite}),
            fmt::format(
                "mma.sync.aligned.m16n8k{}.row.col{}.{}.{}.{}.{} {{d:={}}}, {{a:b32x{}}}, {{b:b32x{}}}, "
                "{{c:{}}};",
                k, satfinite ? ".satfinite" : "", d, name(t.a), name(t.b), d, c, 2 * halves, halves, c),
            Effect::memory, version, sm);
      }
}

std::string tensor_load_name(TensorLoadForm form) {
  return fmt::format("cp_async_bulk_tensor_{}d_load{}{}", form.rank, form.multicast ? "_multicast" : "",
                     form.cache_hint ? "_cache_hint" : "");
}

std::string tensor_prefetch_name(int rank) { return fmt::format("cp_async_bulk_tensor_{}d_prefetch", rank); }

std::string tensor_store_name(TensorStoreForm form) {
  std::string_view hint = form.cache_hint ? "_cache_hint" : "";
  if (!form.reduction) return fmt::format("cp_async_bulk_tensor_{}d_store{}", form.rank, hint);
  return fmt::format("cp_reduce_async_bulk_tensor_{}d_{}{}", form.rank, name(*form.reduction), hint);
}

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
    add(tensor_prefetch_name(rank),
        fmt::format("cp.async.bulk.prefetch.tensor.{}d.L2.global {};", rank, tensor), Effect::memory, 80,
        Sm::sm_90);
    std::vector<std::optional<CopyReduction>> operations = {std::nullopt};
    operations.insert(operations.end(), kCopyReductions.begin(), kCopyReductions.end());
    for (auto reduction : operations)
      for (bool cache_hint : {false, true})
        add(tensor_store_name({rank, reduction, cache_hint}),
            fmt::format(
                "cp{}.async.bulk.tensor.{}d.global.shared::cta{}{}.bulk_group{} {}, [{{src:smem}}]{};",
                reduction ? ".reduce" : "", rank, reduction ? "." : "", reduction ? name(*reduction) : "",
                cache_hint ? ".L2::cache_hint" : "", tensor, cache_hint ? ", {policy:b64}" : ""),
            Effect::memory, 80, Sm::sm_90);
  }
}

std::string bulk_reduction_name(BulkReductionForm form) {
  return fmt::format("cp_reduce_async_bulk_{}_{}{}", name(form.reduction), name(form.type),
                     form.cache_hint ? "_cache_hint" : "");
}

void Table::add_bulk_reductions() {
  for (CopyReduction reduction : kCopyReductions)
    for (DType type : types_of(reduction))
      for (bool cache_hint : {false, true}) {
        const bool of_bits = reduction >= CopyReduction::bit_and, is_half = size_of(type) == 2;
        // The manual has bits for s32 too, under the name of u32's.
        if (of_bits && type == DType::s32) continue;
        add(bulk_reduction_name({reduction, type, cache_hint}),
            fmt::format("cp.reduce.async.bulk.global.shared::cta.bulk_group{}.{}{}.{} [{{dst:gmem}}], "
                        "[{{src:smem}}], {{bytes:u32}}{};",
                        cache_hint ? ".L2::cache_hint" : "", name(reduction),
                        reduction == CopyReduction::add && is_half ? ".noftz" : "",
                        of_bits ? (size_of(type) == 8 ? "b64" : "b32") : name(type),
                        cache_hint ? ", {policy:b64}" : ""),
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

std::string cvt_pack_name(DType to) {
  return fmt::format("cvt_rn_{}{}x2_f32", size_of(to) == 1 ? "satfinite_" : "", name(to));
}

std::string cvt_pack_integer_name(DType to) { return fmt::format("cvt_pack_sat_{}_s32", name(to)); }

void Table::add_conversions() {
  for (DType to : {DType::f16, DType::bf16})
    add(cvt_pack_name(to), fmt::format("cvt.rn.{}x2.f32 {{d:=b32}}, {{high:f32}}, {{low:f32}};", name(to)),
        Effect::pure, 70, Sm::sm_80);
  for (DType to : kFp8)
    add(cvt_pack_name(to),
        fmt::format("cvt.rn.satfinite.{}x2.f32 {{d:=b16}}, {{high:f32}}, {{low:f32}};", name(to)),
        Effect::pure, 78, Sm::sm_90);
  for (DType to : kInt8)
    add(cvt_pack_integer_name(to),
        fmt::format("cvt.pack.sat.{}.s32.b32 {{d:=b32}}, {{high:s32}}, {{low:s32}}, {{above:b32}};",
                    name(to)),
        Effect::pure, 65, Sm::sm_75);
}

std::vector<std::string_view> type_names(CopyReduction reduction) {
  std::vector<std::string_view> names;
  for (DType type : types_of(reduction)) names.push_back(name(type));
  return names;
}

const Row& require(const std::string& name, Where where, std::string_view operation, std::string_view rule) {
  if (const Row* row = find(name)) return *row;
  throw Error(where, fmt::format("{}: {}; there is no {}", operation, rule, name));
}

}  // namespace

std::span<const Row> rows() { return table().rows(); }

const Row* find(std::string_view name) { return table().find(name); }

int wgmma_depth(DType ab) { return 32 / size_of(ab); }

bool wgmma_has_width(DType d, int n) {
  return n >= 8 && n <= 256 && n % 8 == 0 && (d != DType::s32 || is_integer_width(n));
}

const Row& wgmma_mma_async(const WgmmaForm& f, Where where) {
  std::string what = fmt::format("wgmma: {} += {} x {}", name(f.d), name(f.a), name(f.b));
  if (!has_types({f.d, f.a, f.b})) throw Error(where, fmt::format("{}: {}", what, kTypeRule));
  if (!wgmma_has_width(f.d, f.n))
    throw Error(where, fmt::format("{}: n = {} must be a multiple of 8 from 8 to 256{}", what, f.n,
                                   f.d == DType::s32 ? ", and from 32 on of 16" : ""));
  return require(wgmma_name(f), where, what, ".satfinite is for s8 and u8");
}

const Row& wgmma_mma_async_bits(int n, bool a_in_registers, Where where) {
  return require(wgmma_bits_name(n, a_in_registers), where, "wgmma: s32 += b1 x b1",
                 fmt::format("n = {} must be 8, 24 or a multiple of 16 up to 256", n));
}

const Row& mma_sync(const MmaForm& f, Where where) {
  std::string what = fmt::format("mma: {} += {} x {}", name(f.d), name(f.a), name(f.b));
  if (!has_types({f.d, f.a, f.b})) throw Error(where, fmt::format("{}: {}", what, kTypeRule));
  return require(mma_name(f), where, what,
                 fmt::format("k = {} must be {} or {}, and .satfinite is for s8 and u8", f.k,
                             16 / size_of(f.a), 32 / size_of(f.a)));
}

const Row& cp_async_bulk_tensor_load(TensorLoadForm form, Where where) {
  return require(tensor_load_name(form), where, "cp.async.bulk.tensor", "a tensor map has rank 1 to 5");
}

const Row& cp_async_bulk_tensor_prefetch(int rank, Where where) {
  return require(tensor_prefetch_name(rank), where, "cp.async.bulk.prefetch.tensor",
                 "a tensor map has rank 1 to 5");
}

std::string_view name(CopyReduction reduction) {
  constexpr std::array<std::string_view, 8> names = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return names[static_cast<size_t>(reduction)];
}

std::vector<DType> types_of(CopyReduction reduction) {
  using enum DType;
  switch (reduction) {
    case CopyReduction::add:
      return {u32, s32, u64, f16, bf16, f32, f64};
    case CopyReduction::min:
    case CopyReduction::max:
      return {u32, s32, u64, s64, f16, bf16};
    case CopyReduction::inc:
    case CopyReduction::dec:
      return {u32};
    default:  // of s64 an H100 stops at them as illegal instructions
      return {u32, s32, u64};
  }
}

const Row& cp_async_bulk_tensor_store(TensorStoreForm form, Where where) {
  return require(tensor_store_name(form), where, "cp.async.bulk.tensor", "a tensor map has rank 1 to 5");
}

const Row& cp_reduce_async_bulk(BulkReductionForm form, Where where) {
  if (form.reduction >= CopyReduction::bit_and && form.type == DType::s32) form.type = DType::u32;
  return require(
      bulk_reduction_name(form), where, "cp.reduce.async.bulk",
      fmt::format("{} takes {}", name(form.reduction), fmt::join(type_names(form.reduction), ", ")));
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
  return require(cvt_pack_name(to), where, "cvt", "two f32 pack into f16, bf16, e4m3 or e5m2");
}

const Row& cvt_pack_integer(DType to, Where where) {
  return require(cvt_pack_integer_name(to), where, "cvt", "two s32 pack into s8 or u8");
}

}  // namespace ptxbuilder::isa
