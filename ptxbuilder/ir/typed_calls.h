// Offers every row as a typed call. The C++ compiler checks the class, number and direction of the operands,
// and the length of lists. A row of isa/names.def is called by its name, and a member of a family
// (isa/families.def) is called by name and form. instruction.h offers calls of all other PTX instructions.
//
//   pred done = mbarrier_try_wait_parity(bar, parity);
//   mbarrier_arrive.when(lane == 0u)(bar);
//   std::array<u32, 4> fragment = ldmatrix<MatrixForm{.matrices = 4}>(address);
//
// A list is a std::array, or the same number of values in braces. Named registers may replace a list that is
// read. If they replace a list that is also written, such as wgmma's accumulators, the call does not return
// that list. Accumulators must be written before wgmma_fence(). LLVM writes a constant to a register only
// where the constant is used, so the initial d in this example must not be a constant:
//
//   constexpr WgmmaForm form = {.d = DType::f32, .a = DType::bf16, .b = DType::bf16, .n = 8};
//   d = wgmma_mma_async<form>(d, a, b, pred(true), 1, 1, 0, 0);  // d is a std::array<f32, 4>
//   wgmma_mma_async<form>(acc.registers(0), a, b, pred(true), 1, 1, 0, 0);
#pragma once

#include <array>
#include <concepts>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

#define PTXBUILDER_USE(Form) using isa::Form;
PTXBUILDER_FORM_TYPES(PTXBUILDER_USE)
#undef PTXBUILDER_USE

namespace detail {

// An immediate, which is a host integer. A floating-point number is rejected, because converting it would
// round it.
class Immediate {
 public:
  template <class I>
  requires std::integral<I> || std::is_enum_v<I> Immediate(I value)  // NOLINT
      : value_(static_cast<int64_t>(value)) {}
  operator Argument() const { return value_; }  // NOLINT

 private:
  int64_t value_;
};

// The device type that C++ uses for an operand's class.
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
PTXBUILDER_TYPE(generic, generic_address)
PTXBUILDER_TYPE(tmap, TensorMap)
PTXBUILDER_TYPE(local, local_address)
PTXBUILDER_TYPE(constant, constant_address)
PTXBUILDER_TYPE(tmem, tmem)
PTXBUILDER_TYPE(b8, u16)
PTXBUILDER_TYPE(b128, b128)
PTXBUILDER_TYPE(imm, Immediate)
#undef PTXBUILDER_TYPE

// The registers that fill a list: `length` values, or named registers.
template <class T, size_t length>
class ListOf {
 public:
  ListOf(const std::array<T, length>& values)  // NOLINT: an array of values fills it
      : filling_(std::vector<Value>(values.begin(), values.end())) {}
  template <class... V>
  requires(sizeof...(V) == length && (std::convertible_to<V, T> && ...)) ListOf(V... values)  // NOLINT
      : ListOf(std::array<T, length>{T(values)...}) {}
  ListOf(Registers registers) : filling_(std::move(registers)) {}  // NOLINT: named registers also fill it

  operator Argument() const { return filling_; }  // NOLINT

 private:
  Argument filling_;
};

// Named registers for a list that is read and written. Values in braces do not convert to NamedList, so they
// select the call with values.
class NamedList {
 public:
  template <std::same_as<Registers> R>
  NamedList(R registers) : registers_(std::move(registers)) {}  // NOLINT
  operator Argument() const { return registers_; }              // NOLINT

 private:
  Registers registers_;
};

// Determines the C++ type of an operand. `length` is 0 if the operand is not a list.
struct Slot {
  Class cls;
  isa::Access access;
  size_t length;
};

// Returns whether a call accepts named registers instead of values for the operand. A call with named
// registers does not return the operand.
constexpr bool is_accumulator(const isa::Operand& o) { return o.list && o.reads() && o.writes(); }

// Returns whether the operand is among the inputs of a call or, if `written` is true, among its results. If
// `named` is true, accumulators are named registers.
constexpr bool is_among(const isa::Operand& o, bool written, bool named) {
  return written ? o.writes() && !(named && is_accumulator(o)) : o.reads();
}

constexpr size_t count_operands(const isa::Row& row, bool written, bool named) {
  size_t n = 0;
  for (const isa::Operand& o : row.operands) n += is_among(o, written, named);
  return n;
}

constexpr Slot nth_slot(const isa::Row& row, bool written, bool named, size_t n) {
  for (const isa::Operand& o : row.operands)
    if (is_among(o, written, named) && n-- == 0)
      return {o.cls, o.access, o.list ? static_cast<size_t>(o.count) : 0};
  return {};
}

template <Slot slot>
struct OutputType {
  using type = std::array<typename TypeOf<slot.cls>::type, slot.length>;
};
template <Slot slot>
requires(slot.length == 0) struct OutputType<slot> : TypeOf<slot.cls> {
};

template <Slot slot, bool named>
struct InputType {
  using type = std::conditional_t<slot.access == isa::Access::read,
                                  ListOf<typename TypeOf<slot.cls>::type, slot.length>,
                                  std::conditional_t<named, NamedList, typename OutputType<slot>::type>>;
};
template <Slot slot, bool named>
requires(slot.length == 0) struct InputType<slot, named> : TypeOf<slot.cls> {
};

template <const isa::Row& row, bool named, size_t i>
using InputOf = typename InputType<nth_slot(row, false, named, i), named>::type;
template <const isa::Row& row, bool named, size_t i>
using OutputOf = typename OutputType<nth_slot(row, true, named, i)>::type;

template <class T>
Argument argument(const T& input) {
  if constexpr (requires { input.begin(); })
    return std::vector<Value>(input.begin(), input.end());
  else
    return input;
}

// Returns the next result as a value or, if T is an array, the next results as its elements.
template <class T>
T next_result(const Value*& next) {
  if constexpr (requires { std::tuple_size<T>::value; }) {
    auto list = [&]<size_t... i>(std::index_sequence<i...>) {
      return T{(static_cast<void>(i), next_result<typename T::value_type>(next))...};
    };
    return list(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return T((next++)->handle());
  }
}

// Returns whether a row can have a guard. A row with an operand that is only written cannot have a guard,
// because the operand's value would be undefined if the guard were false.
constexpr bool can_be_guarded(const isa::Row& row) {
  for (const isa::Operand& o : row.operands)
    if (!o.reads()) return false;
  return true;
}

template <const isa::Row& row, bool named, class Inputs, class Outputs>
struct Call;

template <const isa::Row& row, bool named, size_t... in, size_t... out>
struct Call<row, named, std::index_sequence<in...>, std::index_sequence<out...>> {
  static auto emit(std::optional<pred> guard, Where where, const InputOf<row, named, in>&... inputs) {
    std::vector<Argument> arguments{argument(inputs)...};
    std::vector<Value> results = Builder::current(where).emit(row, arguments, guard, where);
    [[maybe_unused]] const Value* next = results.data();
    if constexpr (sizeof...(out) == 1) return next_result<OutputOf<row, named, out>...>(next);
    if constexpr (sizeof...(out) > 1)
      return std::tuple<OutputOf<row, named, out>...>{next_result<OutputOf<row, named, out>>(next)...};
  }

  // The call under a predicate: threads whose `guard` is false do nothing.
  struct Guarded {
    pred guard;
    auto operator()(InputOf<row, named, in>... inputs, Where where = Where::here()) const {
      return emit(guard, where, inputs...);
    }
  };

  auto operator()(InputOf<row, named, in>... inputs, Where where = Where::here()) const {
    return emit(std::nullopt, where, inputs...);
  }

  template <std::same_as<pred> Guard>
  Guarded when(Guard guard) const {
    static_assert(
        can_be_guarded(row) || detail::always_false<Guard>,
        "an instruction with a result cannot be guarded: if the predicate is false, the result is undefined");
    return {guard};
  }
};

template <const isa::Row& row, bool named>
using CallWith = Call<row, named, std::make_index_sequence<count_operands(row, false, named)>,
                      std::make_index_sequence<count_operands(row, true, named)>>;

// A row with accumulators, which are passed either as values or as named registers.
template <const isa::Row& row>
struct AccumulatingCall : CallWith<row, false>, CallWith<row, true> {
  using CallWith<row, false>::operator();
  using CallWith<row, true>::operator();

  struct Guarded : CallWith<row, false>::Guarded, CallWith<row, true>::Guarded {
    using CallWith<row, false>::Guarded::operator();
    using CallWith<row, true>::Guarded::operator();
  };
  template <std::same_as<pred> Guard>
  Guarded when(Guard guard) const {
    return {CallWith<row, false>::when(guard), CallWith<row, true>::when(guard)};
  }
};

constexpr bool has_accumulators(const isa::Row& row) {
  for (const isa::Operand& o : row.operands)
    if (is_accumulator(o)) return true;
  return false;
}

template <const isa::Row& row>
using CallOf = std::conditional_t<has_accumulators(row), AccumulatingCall<row>, CallWith<row, false>>;

}  // namespace detail

#define PTXBUILDER_CALL(name) inline constexpr detail::CallOf<isa::rows_def::name> name{};
// Defines the rows with short names as typed calls; isa/names.def lists their syntax and operands.
PTXBUILDER_SHORT_NAMES(PTXBUILDER_CALL)
#undef PTXBUILDER_CALL

// Defines the families of isa/families.def as typed calls. That file describes each family and its operands.
#define PTXBUILDER_CALL(name, Form) \
  template <Form form>              \
  inline constexpr detail::CallOf<isa::name<form>()> name{};
PTXBUILDER_FAMILIES(PTXBUILDER_CALL)
#undef PTXBUILDER_CALL

// Declares a user-defined row, written like a line of isa/manual. Defines its typed call `name`, and the row
// itself as `name_row`. `targets` is the row's lowest target, or several targets joined with `+`, such as
// sm_90a+sm_100f. A call of a row marked pure is dropped if its result is not used. compile/certify.h uses
// ptxas to check the syntax and the minimum target.
//
//   PTXBUILDER_ROW(brev, "brev.b32 {d:=u32}, {a:u32};", pure, 63, sm_75)
//   u32 reversed = brev(x);
#define PTXBUILDER_ROW(name, syntax, effect, ptx_version, targets)                                         \
  inline constexpr ::ptxbuilder::isa::Row name##_row = {#name, syntax, ::ptxbuilder::isa::Effect::effect,  \
                                                        ptx_version,                                       \
                                                        ::ptxbuilder::isa::Targets::parse(#targets)};      \
  static_assert(name##_row.does_something(), #name                                                         \
                " is pure and does not write an operand, so it would be dropped: make its effect memory, " \
                "or write the operand as {name:=class}");                                                  \
  inline constexpr ::ptxbuilder::detail::CallOf<name##_row> name{};

// Emits PTX text that the author provides. Its holes (isa/row.h) are bound by name, and {name} repeats an
// operand. A hole that is written, or read and written, is bound to a Var. A hole that is only read is bound
// to a value or, for an immediate, to a host integer; a list such as f32x4 is bound to four operands in
// braces, or in a vector or array. The text may contain several statements in braces.
//
//   Var<u32> old(0u);
//   ptx("atom.shared.add.u32 {old:=u32}, [{at:smem}], {n:u32};", {{"old", old}, {"at", at}, {"n", u32(1)}});
//   std::vector<Var<f32>> d = ...;  // 4 of them
//   ptx("ld.global.v4.f32 {d:=f32x4}, [{at:gmem}];", {{"d", d}, {"at", address}});
//
// The instruction is never moved or removed, like any instruction with side effects. Throws Error for a hole
// that is unbound or unknown, that is bound to another class or number of operands, or that is written but
// not bound to a Var. The Error names the hole.
class PtxBinding;
void ptx(std::string_view text, std::initializer_list<PtxBinding> bindings, Where where = Where::here());

template <class T>
class Var;

// A register to which a hole is bound: a value, or a Var.
class PtxRegister {
 public:
  // Accepts any value or Var of a register class.
  template <class T>
  requires std::derived_from<T, Value> && requires { T::cls; }
  PtxRegister(T value) : cls_(T::cls), value_(value.handle()) {}  // NOLINT
  template <class T>
  requires std::derived_from<T, Value> && requires { T::cls; }
  PtxRegister(const Var<T>& variable) : cls_(T::cls), variable_(variable.handle()) {}  // NOLINT

 private:
  friend void ptx(std::string_view, std::initializer_list<PtxBinding>, Where);

  Class cls_;
  llvm::Value *value_ = nullptr, *variable_ = nullptr;  // only one is set
};

// A hole of the text, identified by its name, and the registers or the integer that fill it.
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
