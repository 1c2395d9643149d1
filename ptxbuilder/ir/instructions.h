// Every row of isa/rows.def as a typed call: operand count, class and direction are checked by the C++
// compiler.
//
//   pred done = mbarrier_try_wait_parity(bar, parity);
//   mbarrier_arrive.when(lane == 0u)(bar);
#pragma once

#include <ranges>
#include <tuple>
#include <utility>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

namespace detail {

// The device type that C++ sees for an operand's class.
template <Class cls>
struct TypeOf;
#define PTXBUILDER_TYPE(Cls, Type) \
  template <>                      \
  struct TypeOf<Class::Cls> {      \
    using type = Type;             \
  };
PTXBUILDER_TYPE(pred, pred)
PTXBUILDER_TYPE(b16, u16)
PTXBUILDER_TYPE(u16, u16)
PTXBUILDER_TYPE(s16, s16)
PTXBUILDER_TYPE(f16, f16)
PTXBUILDER_TYPE(bf16, bf16)
PTXBUILDER_TYPE(b32, u32)
PTXBUILDER_TYPE(u32, u32)
PTXBUILDER_TYPE(s32, s32)
PTXBUILDER_TYPE(f32, f32)
PTXBUILDER_TYPE(b64, u64)
PTXBUILDER_TYPE(u64, u64)
PTXBUILDER_TYPE(s64, s64)
PTXBUILDER_TYPE(f64, f64)
PTXBUILDER_TYPE(smem, smem)
PTXBUILDER_TYPE(cluster, cluster_smem)
PTXBUILDER_TYPE(gmem, gmem)
PTXBUILDER_TYPE(tmap, TensorMap)
PTXBUILDER_TYPE(imm, int64_t)
#undef PTXBUILDER_TYPE

constexpr size_t count_operands(const isa::Row& row, bool written) {
  size_t n = 0;
  for (const isa::Operand& o : row.operands) n += written ? o.writes() : o.reads();
  return n;
}

constexpr Class nth_class(const isa::Row& row, bool written, size_t n) {
  for (const isa::Operand& o : row.operands)
    if (written ? o.writes() : o.reads())
      if (n-- == 0) return o.cls;
  return Class::imm;
}

template <const isa::Row& row, size_t i>
using InputOf = typename TypeOf<nth_class(row, false, i)>::type;
template <const isa::Row& row, size_t i>
using OutputOf = typename TypeOf<nth_class(row, true, i)>::type;

template <const isa::Row& row, class Inputs, class Outputs>
struct Call;

template <const isa::Row& row, size_t... in, size_t... out>
struct Call<row, std::index_sequence<in...>, std::index_sequence<out...>> {
  using Result = std::tuple<OutputOf<row, out>...>;

  static auto emit(std::optional<pred> guard, Where where, InputOf<row, in>... inputs) {
    std::vector<Argument> arguments{Argument(inputs)...};
    std::vector<Value> results = Builder::current(where).emit(row, arguments, guard, where);
    if constexpr (sizeof...(out) == 1)
      return std::get<0>(Result(OutputOf<row, out>(results[out].handle())...));
    if constexpr (sizeof...(out) > 1) return Result(OutputOf<row, out>(results[out].handle())...);
  }

  // The same call under a predicate: a thread whose `guard` is false does nothing.
  struct Guarded {
    pred guard;
    void operator()(InputOf<row, in>... inputs, Where where = Where::here()) const {
      emit(guard, where, inputs...);
    }
  };

  auto operator()(InputOf<row, in>... inputs, Where where = Where::here()) const {
    return emit(std::nullopt, where, inputs...);
  }

  template <std::same_as<pred> Guard>
  Guarded when(Guard guard) const {
    static_assert(sizeof...(out) == 0 || detail::always_false<Guard>,
                  "an instruction with a result cannot be guarded: where the predicate is false the result "
                  "is undefined");
    return {guard};
  }
};

template <const isa::Row& row>
using CallOf = Call<row, std::make_index_sequence<count_operands(row, false)>,
                    std::make_index_sequence<count_operands(row, true)>>;

}  // namespace detail

#define PTX_ROW(name, ...) inline constexpr detail::CallOf<isa::rows_def::name> name{};
#define PTX_INTRINSIC(name, ...) inline constexpr detail::CallOf<isa::rows_def::name> name{};
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC

// A row of the author's own, by the line that isa/rows.def has for each of the library's: declares its typed
// call `name`, and the row itself as `name_row`. compile/certify.h asks ptxas whether syntax and floor are
// right.
//
//   PTXBUILDER_ROW(brev, "brev.b32 {d:=u32}, {a:u32};", pure, 63, sm_75)
//   u32 reversed = brev(x);
#define PTXBUILDER_ROW(name, syntax, effect, ptx_version, sm)                                             \
  inline constexpr ::ptxbuilder::isa::Row name##_row = {#name, syntax, ::ptxbuilder::isa::Effect::effect, \
                                                        ptx_version, ::ptxbuilder::isa::Sm::sm};          \
  inline constexpr ::ptxbuilder::detail::CallOf<name##_row> name{};

// Text of the author's own, with the holes of isa/row.h bound by name; {name} mentions an operand once more.
// A hole that writes or reads and writes is bound to a Var, one that reads to a value or, for an immediate,
// to a host integer; a list, as f32x4, to as many in braces or in a vector or array. Several statements may
// stand in braces.
//
//   Var<u32> old(0u);
//   ptx("atom.shared.add.u32 {old:=u32}, [{at:smem}], {n:u32};", {{"old", old}, {"at", at}, {"n", u32(1)}});
//   std::vector<Var<f32>> d = ...;  // 4 of them
//   ptx("ld.global.v4.f32 {d:=f32x4}, [{at:gmem}];", {{"d", d}, {"at", address}});
//
// Always kept in place, as an instruction with side effects. Throws Error that names the hole: unbound,
// unknown, of another class or number, or not writable.
class PtxBinding;
void ptx(std::string_view text, std::initializer_list<PtxBinding> bindings, Where where = Where::here());

template <class T>
class Var;

// A register that a hole is bound to: a value, or a Var.
class PtxRegister {
 public:
  template <class T>
  requires std::derived_from<T, Value> && requires { T::cls; }
  PtxRegister(T value) : cls_(T::cls), value_(value.handle()) {}  // NOLINT
  template <class T>
  requires std::derived_from<T, Value> && requires { T::cls; }
  PtxRegister(const Var<T>& variable) : cls_(T::cls), variable_(variable.handle()) {}  // NOLINT

 private:
  friend void ptx(std::string_view, std::initializer_list<PtxBinding>, Where);

  Class cls_;
  llvm::Value *value_ = nullptr, *variable_ = nullptr;  // one of them
};

class PtxBinding {
 public:
  PtxBinding(std::string_view hole, PtxRegister one) : hole_(hole), registers_{one} {}
  PtxBinding(std::string_view hole, std::initializer_list<PtxRegister> list)
      : hole_(hole), registers_(list) {}
  template <std::ranges::input_range List>
  requires std::convertible_to<std::ranges::range_reference_t<List>, PtxRegister> PtxBinding(
      std::string_view hole, List&& list)
      : hole_(hole) {
    for (auto&& one : list) registers_.emplace_back(one);
  }
  PtxBinding(std::string_view hole, std::integral auto immediate)
      : hole_(hole), immediate_(static_cast<int64_t>(immediate)) {}

 private:
  friend void ptx(std::string_view, std::initializer_list<PtxBinding>, Where);

  std::string_view hole_;
  std::vector<PtxRegister> registers_;
  std::optional<int64_t> immediate_;
};

}  // namespace ptxbuilder
